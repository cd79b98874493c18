"""Rebuilds plain data from a pickle without ever running the pickle.

Python's unpickler is a small machine that calls what the file names. This reader
decodes the same instructions and obeys only those that put numbers, text, lists,
tuples, dictionaries and numpy arrays together. Of all functions a file could name,
the handful by which numpy stores an array are recognised by name and done by code
of our own; anything else is an error, and nothing is imported or called.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from nopg.data.io.plain_arrays import (
    Kind,
    Name,
    PlainArray,
    Refused,
    call,
    fill,
)
from nopg.errors import DataError

_MARK = object()


def read_plain_pickle(stream: BinaryIO, where: Path) -> Any:
    """The object a pickle describes, if it is made of plain data.

    Raises:
        DataError: If the pickle is damaged or asks for anything else.
    """
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            if opcode.name == "STOP":
                return machine.pop()
            machine.step(opcode.name, argument)
    except Refused as error:
        found = str(error)
    except (ValueError, IndexError, KeyError, TypeError, MemoryError) as error:
        found = f"damaged data ({str(error)[:100]})"
    except (OverflowError, RecursionError, AttributeError, UnicodeError) as error:
        found = f"damaged data ({str(error)[:100]})"
    else:
        found = "no end"
    raise DataError(
        f"`{where}` must hold only numbers, text, lists and arrays, found {found}; it "
        "was not opened, convert it with a program you trust."
    )


@dataclass
class _Machine:
    """The stack and the memory that pickle instructions work on."""

    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def step(self, name: str, argument: Any) -> None:
        """Obey one instruction or refuse it."""
        if name in _VALUES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        elif name not in ("PROTO", "FRAME"):
            raise Refused(f"the instruction {name}")

    def pop(self) -> Any:
        """Take the topmost value."""
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        """Take all values above the last mark, and the mark."""
        start = len(self.stack) - 1
        while self.stack[start] is not _MARK:
            start -= 1
            if start < 0:
                raise ValueError("no mark")
        values = self.stack[start + 1 :]
        del self.stack[start:]
        return values

    def extend(self, values: list[Any]) -> None:
        """Append to the list on top."""
        if not isinstance(self.stack[-1], list):
            raise Refused("an append to something that is no list")
        self.stack[-1].extend(values)

    def update(self, values: list[Any]) -> None:
        """Put keys and values into the dictionary on top."""
        target = self.stack[-1]
        if type(target) is not dict:
            raise Refused("an item set on something that is no dictionary")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, (str, int)):
                raise Refused("a dictionary key that is no text")
            target[key] = value

    def reduce(self) -> None:
        """Do what numpy's own few functions would do."""
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, Name) or not isinstance(arguments, tuple):
            raise Refused("a call of something that is no function")
        self.stack.append(call(function, arguments))

    def build(self) -> None:
        """Fill the array or the dtype on top."""
        state, target = self.pop(), self.stack[-1]
        if isinstance(target, PlainArray):
            fill(target, state)
        elif isinstance(target, Kind):
            target.order = str(state[1])
        else:
            raise Refused("a state set on something that is no array")

    def memoize(self, index: int | None) -> None:
        """Remember the topmost value."""
        self.memo[len(self.memo) if index is None else index] = self.stack[-1]


_VALUES = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
        *("FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    )
)
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "MARK": lambda: _MARK,
}


def _tuple_of(machine: _Machine, count: int) -> None:
    values = [machine.pop() for _ in range(count)]
    machine.stack.append(tuple(reversed(values)))


def _stack_global(machine: _Machine) -> None:
    name, module = machine.pop(), machine.pop()
    machine.stack.append(Name(str(module), str(name)))


def _dictionary(machine: _Machine) -> None:
    values = machine.pop_to_mark()
    machine.stack.append({})
    machine.update(values)


_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "APPEND": lambda m, _: m.extend([m.pop()]),
    "APPENDS": lambda m, _: m.extend(m.pop_to_mark()),
    "SETITEM": lambda m, _: m.update([m.pop(), m.pop()][::-1]),
    "SETITEMS": lambda m, _: m.update(m.pop_to_mark()),
    "LIST": lambda m, _: m.stack.append(m.pop_to_mark()),
    "DICT": lambda m, _: _dictionary(m),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_to_mark())),
    "TUPLE1": lambda m, _: _tuple_of(m, 1),
    "TUPLE2": lambda m, _: _tuple_of(m, 2),
    "TUPLE3": lambda m, _: _tuple_of(m, 3),
    "PUT": lambda m, index: m.memoize(index),
    "BINPUT": lambda m, index: m.memoize(index),
    "LONG_BINPUT": lambda m, index: m.memoize(index),
    "MEMOIZE": lambda m, _: m.memoize(None),
    "GET": lambda m, index: m.stack.append(m.memo[index]),
    "BINGET": lambda m, index: m.stack.append(m.memo[index]),
    "LONG_BINGET": lambda m, index: m.stack.append(m.memo[index]),
    "GLOBAL": lambda m, text: m.stack.append(Name(*text.split(" ", 1))),
    "STACK_GLOBAL": lambda m, _: _stack_global(m),
    "REDUCE": lambda m, _: m.reduce(),
    "BUILD": lambda m, _: m.build(),
}

"""Kernels compile for a Hopper GPU, on any machine that has Triton."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not available on this platform")


def test_every_kernel_compiles(tmp_path: Path) -> None:
    script = Path(__file__).with_name("compile_for_hopper.py")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    # A cache of its own: a stale one would prove nothing.
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "TRITON_DEFAULT_FP_FUSION": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "all compiled" in done.stdout


def test_without_triton_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['triton'] = None; import nopg.gpu.rows"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtraError" in done.stderr
    assert 'pip install "nopg[gpu]"' in done.stderr

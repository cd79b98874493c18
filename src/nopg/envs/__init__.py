"""The pendulum of `nopg demo` and of the paper; importing this registers nothing."""

from nopg.envs.pendulum import pendulum_grid, register

__all__ = ["pendulum_grid", "register"]

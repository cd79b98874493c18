"""`python -m nopg` is the command `nopg`."""

from nopg.cli.main import run

run()

"""`python -m autofn` is the command `autofn`."""

from .cli import main

main()

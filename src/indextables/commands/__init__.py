"""SQL commands: read from text, and listed in one table that says what each does.

`parse_command` reads a statement into a frozen `Command`, and leaves those alone that are not ours. `COMMANDS` has what
does the work, for SQL and for the command line.
"""

from __future__ import annotations

from indextables.commands.parse import is_borrowed, parse_command
from indextables.commands.specs import COMMANDS, Spec
from indextables.commands.values import Command, Target

__all__ = ["COMMANDS", "Command", "Spec", "Target", "is_borrowed", "parse_command"]

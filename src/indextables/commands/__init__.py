"""SQL commands: a parser, and one table with the work of each.

`parse_command` reads a statement into a frozen `Command`, and returns None for statements that are not ours. `COMMANDS`
maps each command to its implementation, for SQL and for the command line.
"""

from __future__ import annotations

from indextables.commands.parse import Command, Target, is_borrowed, parse_command
from indextables.commands.specs import COMMANDS, Spec

__all__ = ["COMMANDS", "Command", "Spec", "Target", "is_borrowed", "parse_command"]

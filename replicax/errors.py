"""What a user can mend: shown as one line, never as a traceback."""


class UserError(Exception):
    """A mistake or an obstacle on the user's side.

    The message states the rule, the values received and the remedy. The command line prints it
    on stderr and ends with `exit_code`.
    """

    exit_code = 2


class GoalNotReached(UserError):
    """No trial reached the goal at some batch size; the study is kept."""

    exit_code = 3

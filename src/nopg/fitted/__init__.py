"""What both algorithms return: a policy that can be asked, saved and loaded."""

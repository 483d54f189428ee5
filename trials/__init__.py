"""Trials of the harness itself, on arms whose truth is known. They take an hour; nothing else imports them."""

"""What a call leaves behind: bytes allocated, tensors saved, memory written. Checks and measurement both look here."""

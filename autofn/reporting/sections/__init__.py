"""What a page can hold, one section a file. Each exports `section(inputs) -> Section`; the definitions choose."""

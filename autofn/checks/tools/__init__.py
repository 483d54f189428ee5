"""What several families of rules share: comparing, varying arguments, watching the engine, seeing what is alive."""

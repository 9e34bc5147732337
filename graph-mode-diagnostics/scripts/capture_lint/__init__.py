"""Static lint of code that will be captured into a graph: sources → project → walk → rules → render.

Nothing of the code under inspection is imported or executed: it is read with the standard library's `ast`.
"""

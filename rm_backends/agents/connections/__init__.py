"""How agents connect: who may join, what they say first, and their messages until they are gone.

What a pool does with an agent that is there is decided beside this package.
"""

"""Where machines come from, behind one Protocol.

`aws`, `gcp` and `pilots` sell machines; `embedded` ones are processes of this machine, for tests and demos.
"""

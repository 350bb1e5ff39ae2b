"""What the master does with checkpoints after they were reported: collect, delete, pack for a download.

What is to be deleted is a row first; processes and tasks carry it out, and again until it is done.
"""

"""Baked images: one machine of a pool is set up, its disk becomes an image, and later machines boot from it.

`requests` says what may be baked, `bakes` carries one through its stages. Pure.
"""

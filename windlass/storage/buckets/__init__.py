"""Storage in buckets of S3, Google Cloud and Azure: what all have in common, and what each calls it.

obstore is imported when the first bucket is opened.
"""

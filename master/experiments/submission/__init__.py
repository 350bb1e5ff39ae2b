"""What comes before an experiment exists: whether its configuration can run here, whether its storage can be used.

`creation` is what creating one takes and answers, `warm_start` where its trials begin.
"""

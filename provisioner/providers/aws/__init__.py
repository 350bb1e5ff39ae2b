"""Machines of Amazon EC2. boto3 is imported when a provider is opened, not before.

account    whose machines they are, and where
catalogue  what one account sells in one region: facts of types, zones, subnets, images, reservations, spot prices
offers     the catalogue as offers of one pool
request    the whole of a RunInstances call, made once and kept with the intent
tags       what a machine says of itself
errors     what EC2's refusals mean
client     calls: one attempt each, in threads
provider   the `Provider`
"""

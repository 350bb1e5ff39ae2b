"""Machines of Google Compute Engine.

`site` says whose machines they are, `catalogue` what a project sells, `offers` what a pool buys of it; `request` is the
call of one launch, `launches` makes it and follows its operation; `machines` reads what exists, `errors` what refusals
mean. google-cloud-compute is imported when the first call is made (`client`).
"""

"""Where the launcher puts the variables of ranks."""

DEEPSPEED_ENVIRONMENT_NAME = ".deepspeed_env"

# On each node: one launcher of the published package after the other, options for what it calls before the "--".
set -e
python3 -m determined.launch.torch_distributed --rdzv_backend=static -- python3 train.py torch
# The second node serves with sshd until its rank has ended.
python3 -m determined.launch.horovod --mpi-args="--mca btl tcp,self" -- python3 train.py horovod
# At a port of its own: nobody takes the sshd that ends for the one that begins.
export DTRAIN_SSH_PORT=$((${DTRAIN_SSH_PORT:-12350} + 100))
exec python3 -m determined.launch.deepspeed python3 train.py deepspeed

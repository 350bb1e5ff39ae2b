echo "in $(cat /name) as $(id -u), job $SLURM_JOB_ID on $SLURMD_NODENAME"
echo "gpus $CUDA_VISIBLE_DEVICES, proc 1 is $(tr '\0' ' ' </proc/1/cmdline)"
touch /gates/began
while [ ! -e /gates/open ]; do sleep 0.1; done
exit 3

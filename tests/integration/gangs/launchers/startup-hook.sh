# What launchers call are the recorders beside this.
export PATH="$PWD/bin:$PATH"

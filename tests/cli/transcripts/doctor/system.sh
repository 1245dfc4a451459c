# system.sh - a system that is made up: no test sees the real one. found LEVEL prints
# what doctor finds of a level, with reasons and remedies.
mkdir -p root/dev/shm root/etc home lib
cp $PLUGINS/libnccl-tuner-fake_nccl.so lib/libnccl.so.2
export STEPTUNE_ROOT=$PWD/root HOME=$PWD/home LD_LIBRARY_PATH=$PWD/lib:$LIB
export NCCL_TUNER_PLUGIN=steptune
echo 'allreduce,0,inf,tree,ll,-1,-1,-1' >nccl_tuner.conf
found() {
	level=$1
	shift
	steptune doctor "$@" | awk -v level=$level '/^[a-z]/ { on = $1 == level } on && NF'
}

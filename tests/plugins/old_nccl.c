/* A libnccl of a version that is too old. */
int ncclGetVersion(int *version);

int ncclGetVersion(int *version)
{
    *version = 21805;
    return 0;
}

#define FUNCTION(name)                                                         \
    int name(void);                                                            \
    int name(void)                                                             \
    {                                                                          \
        return 0;                                                              \
    }

FUNCTION(ncclGetUniqueId)
FUNCTION(ncclCommInitRank)
FUNCTION(ncclCommSplit)
FUNCTION(ncclCommDestroy)
FUNCTION(ncclCommAbort)
FUNCTION(ncclCommGetAsyncError)
FUNCTION(ncclGetErrorString)
FUNCTION(ncclGetLastError)
FUNCTION(ncclGroupStart)
FUNCTION(ncclGroupEnd)
FUNCTION(ncclAllReduce)
FUNCTION(ncclReduceScatter)
FUNCTION(ncclAllGather)
FUNCTION(ncclBroadcast)
FUNCTION(ncclReduce)

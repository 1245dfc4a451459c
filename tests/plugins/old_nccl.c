/* A libnccl of a version that is too old. */
int ncclGetVersion(int *version);

int ncclGetVersion(int *version)
{
    *version = 21805;
    return 0;
}

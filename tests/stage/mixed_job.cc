// mixed_job.cc - a process with two NCCLs, FOLDER/libnccl.so.2 and .3
//
// Built with NCCL as one of these fakes, which know their own communicators;
// with USER as a library that is linked with one; else as the job: mixed_job
// FOLDER STEP...  Steps: 1 and 2 load a user, and 3 and 4 an NCCL, without
// showing it to others; 5 shows the first NCCL; a and b are calls of a user,
// d of the program, which is linked with none.  Prints each call with the
// number of its NCCL.
#include <dlfcn.h>

#include <cstdio>
#include <string>

extern "C" {
#pragma GCC visibility push(default)
#include "nccl_comm_abi.h"
int use(void); // the number of the NCCL that got all calls; 0: there were two
ncclResult_t ncclUnknown(ncclComm_t comm); // to the library in front
ncclResult_t pncclCommInitRank(ncclComm_t *, int, ncclUniqueId, int);
ncclResult_t pncclCommCount(const ncclComm_t comm, int *count);
#pragma GCC visibility pop
}

namespace
{

// Calls with a communicator of NCCL number n: its own alone succeed.
template <typename Init, typename Number, typename Last>
[[maybe_unused]] int Use(Init init, Number get, Last last)
{
    ncclComm_t comm = nullptr;
    int number = 0;

    return init(&comm, 1, {}, 0) == ncclSuccess &&
                   get(comm, &number) == ncclSuccess &&
                   last(comm) == ncclSuccess
               ? number
               : 0;
}

} // namespace

#ifdef NCCL
static ncclResult_t Check(const void *comm)
{
    return (uintptr_t)comm == NCCL ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = 22809;
    return ncclSuccess;
}

ncclResult_t pncclCommInitRank(ncclComm_t *comm, int, ncclUniqueId, int)
{
    *comm = reinterpret_cast<ncclComm_t>(uintptr_t{NCCL});
    return ncclSuccess;
}

// As a profiler's, behind the library in front.
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int r)
{
    return pncclCommInitRank(comm, n, id, r);
}

ncclResult_t pncclCommCount(const ncclComm_t comm, int *count)
{
    *count = 1;
    return Check(comm);
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    return pncclCommCount(comm, count);
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = 0;
    return Check(comm);
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *gpu)
{
    *gpu = NCCL;
    return Check(comm);
}

ncclResult_t ncclUnknown(ncclComm_t comm)
{
    return Check(comm);
}
#elif defined(USER)
int use()
{
    return Use(ncclCommInitRank, ncclCommCuDevice, ncclUnknown);
}
#else
int main(int, char **argv)
{
    const std::string folder = argv[1];
    const auto open = [&](const char *name, int scope = RTLD_LOCAL) {
        return dlopen((folder + name).c_str(), RTLD_NOW | scope);
    };
    const auto find = [](const char *name) {
        return dlsym(RTLD_DEFAULT, name);
    };
    void *users[2] = {};

    for (char **step = argv + 2; *step != nullptr; step++)
        if ('1' <= **step && **step <= '2')
            users[**step - '1'] =
                open(**step == '1' ? "/libuser2.so" : "/libuser3.so");
        else if ('3' <= **step && **step <= '4')
            open(**step == '3' ? "/libnccl.so.2" : "/libnccl.so.3");
        else if (**step == '5')
            open("/libnccl.so.2", RTLD_GLOBAL);
        else if (**step == 'd')
            printf("d%d ",
                   Use((decltype(&ncclCommInitRank))find("ncclCommInitRank"),
                       (decltype(&ncclCommCuDevice))find("ncclCommCuDevice"),
                       [](ncclComm_t) { return ncclSuccess; }));
        else
            printf("%s%d ", *step,
                   ((int (*)())dlsym(users[**step - 'a'], "use"))());
    return 0;
}
#endif

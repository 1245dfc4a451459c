#include "stage/why.h"

static const struct {
    const char *word, *text;
} whys[STP_STAGE_N_WHYS] = {
    [STP_STAGE_STAGED] = {"", "it is staged"},
    [STP_STAGE_NO_RULE] = {"rule", "no rule names the message"},
    [STP_STAGE_NO_KERNEL] = {"type",
                             "NCCL has no symmetric kernel for the type and "
                             "operation"},
    [STP_STAGE_UNALIGNED] = {"unaligned",
                             "a rank's part is no multiple of 16 bytes"},
    [STP_STAGE_NO_PLACE] = {"places", "the group's messages are more than the "
                                      "memory holds"},
    [STP_STAGE_OWN_WINDOWS] = {"own_windows",
                               "the application registers windows of its own"},
    [STP_STAGE_ENDED] = {"ended", "the communicator was revoked or suspended"},
    [STP_STAGE_NO_MATCH] = {"rule",
                            "no rule names so many ranks on one host, or "
                            "this GPU"},
    [STP_STAGE_IN_GROUP] = {"stepped_aside",
                            "the process makes several ranks in one group"},
    [STP_STAGE_NO_WAIT] = {"stepped_aside", "the communicator is non-blocking"},
    [STP_STAGE_LIMITED] = {"stepped_aside",
                           "the application limits the communicator's CTAs"},
    [STP_STAGE_NO_CONTEXT] = {"stepped_aside",
                              "the thread has no CUDA context"},
    [STP_STAGE_NO_MEETING] = {"stepped_aside",
                              "the ranks cannot share memory in /dev/shm"},
    [STP_STAGE_NOT_AGREED] = {"stepped_aside", "the ranks did not agree"},
    [STP_STAGE_BEHIND] =
        {"stepped_aside",
         "another library in LD_PRELOAD takes NCCL's calls first"},
    [STP_STAGE_OLD_NCCL] = {"stepped_aside",
                            "NCCL is older than 2.27 and has no windows"},
    [STP_STAGE_NO_CUDA] = {"stepped_aside",
                           "libcuda.so.1 is missing, or older than CUDA 12.3"},
    [STP_STAGE_SWITCHED_OFF] =
        {"stepped_aside", "NCCL_WIN_ENABLE=0 or NCCL_CUMEM_ENABLE=0 switches "
                          "windows off"},
    [STP_STAGE_REFUSED] =
        {"stepped_aside", "the file of rules (STEPTUNE_STAGE_FILE) is refused"},
};

const char *stp_stage_why_word(enum stp_stage_why why)
{
    return whys[why].word;
}

const char *stp_stage_why_text(enum stp_stage_why why)
{
    return whys[why].text;
}

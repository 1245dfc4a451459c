/* closed_stdin.h - a process without standard input, as some launchers start
 * it: the next file that it opens has descriptor 0 */
#pragma once

#include <fcntl.h>
#include <unistd.h>

class ClosedStdin
{
  public:
    ClosedStdin() : kept_(fcntl(0, F_DUPFD_CLOEXEC, 100))
    {
        close(0);
    }
    ClosedStdin(const ClosedStdin &) = delete;
    ClosedStdin &operator=(const ClosedStdin &) = delete;
    ~ClosedStdin()
    {
        dup2(kept_, 0);
        close(kept_);
    }

    static bool IsFree()
    {
        return fcntl(0, F_GETFD) == -1;
    }

  private:
    const int kept_;
};

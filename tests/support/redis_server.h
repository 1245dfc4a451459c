// A real redis-server of a test, on a free port of 127.0.0.1 and in a folder of
// its own, which also has what TLS needs.
#ifndef STP_REDIS_SERVER_H
#define STP_REDIS_SERVER_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace redis_server
{

// Why tests with a server are skipped; "" if they need not be.
inline std::string WhyNot(bool tls = false)
{
    std::string missing;
    for (const char *program : {"redis-server", "openssl"}) {
        const std::string look =
            "command -v " + std::string(program) + " >/dev/null 2>&1";
        if ((tls || program == std::string("redis-server")) &&
            std::system(look.c_str()) != 0)
            missing = std::string("no ") + program + " here";
    }
#ifndef STP_HAVE_REDIS
    missing = "built without hiredis or OpenSSL: no libsteptune-redis.so";
#endif
    return missing;
}

class Server
{
  public:
    // Arguments are redis-server's; "TLS" stands for all that TLS needs.
    explicit Server(std::vector<std::string> arguments = {})
        : arguments_(std::move(arguments))
    {
        for (const std::string &argument : arguments_)
            has_tls_ |= argument == "TLS";
        if (has_tls_)
            MakeCertificates();
        // Another process may take the port that was free.
        for (int i = 0; i < 10 && pid_ == 0; i++) {
            port_ = FindPort();
            Start();
        }
        EXPECT_NE(0, pid_) << "redis-server does not start";
    }
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;
    ~Server()
    {
        Kill();
    }

    unsigned port() const
    {
        return port_;
    }
    const std::string &folder() const
    {
        return folder_;
    }

    // Its address, with "" or "user:password@".
    std::string Url(const std::string &login = "",
                    const std::string &rest = "") const
    {
        return (has_tls_ ? "rediss://" : "redis://") + login +
               "127.0.0.1:" + std::to_string(port_) + rest +
               (has_tls_ ? "?cacert=" + folder_ + "/ca.pem" : "");
    }

    void Signal(int signal) const
    {
        kill(pid_, signal);
    }

    void Kill()
    {
        if (pid_ <= 0)
            return;
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }

    // Starts it on the same port, empty.
    void Restart()
    {
        Kill();
        for (int i = 0; i < 100 && pid_ == 0; i++)
            Start();
        EXPECT_NE(0, pid_) << "redis-server does not start again";
    }

  private:
    static unsigned FindPort()
    {
        sockaddr_in address = Loopback(0);
        socklen_t size = sizeof(address);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        EXPECT_EQ(0, bind(fd, reinterpret_cast<sockaddr *>(&address),
                          sizeof(address)));
        getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size);
        close(fd);
        return ntohs(address.sin_port);
    }

    static sockaddr_in Loopback(unsigned port)
    {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<uint16_t>(port));
        return address;
    }

    // An authority, and what it signed: a server (127.0.0.1 alone) and a
    // client.
    void MakeCertificates() const
    {
        const std::string make =
            "cd " + folder_ +
            " && new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'"
            " && openssl req -x509 $new -days 2 -subj /CN=ca -keyout ca.key"
            " -out ca.pem && for who in server client; do"
            " openssl req $new -subj /CN=$who -keyout $who.key -out $who.csr &&"
            " printf 'subjectAltName=IP:127.0.0.1\\n' >ext &&"
            " openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key"
            " -CAcreateserial -days 2 -extfile ext -out $who.pem || exit 1;"
            " done";
        EXPECT_EQ(0,
                  std::system(("{ " + make + "; } >/dev/null 2>&1").c_str()));
    }

    std::vector<std::string> Arguments() const
    {
        const std::string port = std::to_string(port_);
        std::vector<std::string> all = {"redis-server",
                                        "--bind",
                                        "127.0.0.1",
                                        "--save",
                                        "",
                                        "--appendonly",
                                        "no",
                                        "--dir",
                                        folder_,
                                        "--logfile",
                                        "log",
                                        "--port",
                                        has_tls_ ? "0" : port};
        for (const std::string &argument : arguments_) {
            if (argument != "TLS") {
                all.push_back(argument);
                continue;
            }
            for (const std::string &part :
                 {std::string("--tls-port"), port,
                  std::string("--tls-cert-file"), folder_ + "/server.pem",
                  std::string("--tls-key-file"), folder_ + "/server.key",
                  std::string("--tls-ca-cert-file"), folder_ + "/ca.pem"})
                all.push_back(part);
        }
        return all;
    }

    // Until it answers; pid_ stays 0 if it ends before.
    void Start()
    {
        const std::vector<std::string> all = Arguments();
        std::vector<char *> argv;
        for (const std::string &argument : all)
            argv.push_back(const_cast<char *>(argument.c_str()));
        argv.push_back(nullptr);
        const pid_t pid = fork();
        if (pid == 0) {
            // It ends with the test, and keeps no pipe of ctest's open.
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            const int null = open("/dev/null", O_RDWR);
            dup2(null, 1);
            dup2(null, 2);
            execvp(argv[0], argv.data());
            _exit(127);
        }
        while (!Answers())
            if (waitpid(pid, nullptr, WNOHANG) != 0)
                return;
            else
                usleep(1000);
        pid_ = pid;
    }

    bool Answers() const
    {
        const sockaddr_in address = Loopback(port_);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        const bool answers =
            connect(fd, reinterpret_cast<const sockaddr *>(&address),
                    sizeof(address)) == 0;
        close(fd);
        return answers;
    }

    std::vector<std::string> arguments_;
    TemporaryFolder temporary_;
    const std::string &folder_ = temporary_.path();
    bool has_tls_ = false;
    unsigned port_ = 0;
    pid_t pid_ = 0;
};

} // namespace redis_server

#endif // STP_REDIS_SERVER_H

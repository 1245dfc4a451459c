/* socket.h - connections that have a deadline (stp_now_ms())
 *
 * The sockets do not block.  Functions return false and errno if the deadline
 * has passed (ETIMEDOUT) and no answer is there, or the other host is gone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { STP_SOCKET_ADDRESS = 64 };

/* Connects to a name or an address, IPv4 or IPv6.  The socket, or -1 and the
 * reason in 'why'; 'address' is the one that was tried last, or "". */
int stp_socket_connect(const char *name, unsigned port, int64_t deadline_ms,
                       char address[STP_SOCKET_ADDRESS], char *why,
                       size_t size);

/* Sends the parts, which it changes.  With 'until_input' it ends, with true,
 * when something can be read. */
bool stp_socket_send(int fd, struct iovec *parts, int n_parts, bool until_input,
                     int64_t deadline_ms);
bool stp_socket_receive(int fd, void *to, size_t size, int64_t deadline_ms);

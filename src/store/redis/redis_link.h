/*
 * redis_link.h - a connection to a Redis server, with TLS or without
 *
 * hiredis 0.14 has no TLS, and its sockets no deadline for a whole reply: it
 * only reads replies here, out of bytes that this receives.  OpenSSL works on
 * memory, so that it never writes to a socket itself: that could raise SIGPIPE
 * in a job.
 */
#ifndef STP_REDIS_LINK_H
#define STP_REDIS_LINK_H

#include "store/store_client.h"

struct redisReply; /* of <hiredis.h> */

/* Fill in the client's 'fd' and 'state', and 'why' on failure. */
bool stp_redis_connect(struct stp_client *client,
                       const struct stp_store_address *address);

/* Also if it failed. */
void stp_redis_disconnect(struct stp_client *client);

bool stp_redis_send(struct stp_client *client, const void *data, size_t size);

/* The next reply, to be freed with freeReplyObject(), or NULL. */
struct redisReply *stp_redis_receive(struct stp_client *client);

#endif /* STP_REDIS_LINK_H */

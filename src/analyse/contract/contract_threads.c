/* contract_threads.c - checks of inits and calls in several threads at once */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analyse/contract/contract_suite.h"

/* Functions of libc that keep what they go on with in memory that all threads
 * share. A tuner that calls one races with inits and calls of other
 * communicators and with the application, which may be between two calls of it;
 * how often that shows is chance. So its part is played here: what it was told
 * must still hold after the tuner had its turn. */
static char words[] = "first second";
static const char *told_text; /* of ctime() */
static char first_text[32];
static const struct tm *told;

static void threads_begin_shared(void)
{
    static const time_t some_day = 86400;

    words[sizeof("first") - 1] = ' ';
    (void)strtok(words, " ");
    told_text = ctime(&some_day);
    snprintf(first_text, sizeof(first_text), "%s", told_text);
    told = gmtime(&some_day); /* after ctime(), which calls it */
}

/* Then the scenarios, in which ranks are threads at once. */
void stp_check_threads(struct stp_contract_run *run)
{
    const bool of_inits = run->entry->stage == STP_STAGE_INITS;
    struct mock_nccl *nccl = stp_contract_open(run, NULL);
    struct stp_decisions ignored;
    struct mock_comm *comm;
    const char *word, *changed = NULL;

    if (of_inits)
        threads_begin_shared();
    comm = stp_contract_comm(run, nccl, run->world->machine, 0);
    if (!of_inits) {
        threads_begin_shared();
        stp_contract_ask(run, comm, STP_N_QUESTIONS, &ignored);
    }
    word = strtok(NULL, " ");
    if (word == NULL || strcmp(word, "second") != 0)
        changed = "strtok()";
    else if (strcmp(told_text, first_text) != 0)
        changed = "ctime() or asctime()";
    else if (told->tm_year != 70 || told->tm_yday != 1 || told->tm_hour != 0)
        changed = "gmtime() or localtime()";
    if (changed != NULL)
        STP_CONTRACT_FAIL_BY(run,
                             "%s calls %s of libc, whose memory all threads of "
                             "the process share",
                             of_inits ? "init" : "getCollInfo", changed);
    stp_contract_destroy(run, comm);
    stp_contract_unload(run, nccl);
    stp_check_scenarios(run);
}

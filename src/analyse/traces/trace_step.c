#include "analyse/traces/trace_step.h"

#include <stdlib.h>

#include "launch/take.h"

enum {
    ROUNDING = 1 << 16,   /* bytes of max_bytes */
    MOST_REPEATED = 8192, /* rows at the end that are looked at */
    MIN_REPEATED = 4,     /* rows that tell a repetition from chance */
};

/* A step that is being made.  The first failure stays. */
struct making {
    const struct stp_trace *trace;
    struct stp_trace_step *out;
    unsigned n_ranks;
    int type;
    size_t first_row; /* of the step; its rows are from here on */
    unsigned n_events;
    bool main_is_new; /* main has work that comm has not waited for */
    bool comm_is_new; /* likewise */
    uint64_t group;   /* the NCCL group that is open; 0: none */
    enum stp_status status;
    struct stp_error *err;
};

/* ---- communicators ---- */

/* The groups of a communicator by list, if they are by a rule, the stride of
 * the first rank that has a color: each is of one color, and each color of one
 * of them. */
static bool step_find_rule(const struct stp_trace_comm *comm,
                           struct stp_rank_groups *groups)
{
    const size_t n = (size_t)comm->n_listed;
    int *color_of = stp_take(2 * n, sizeof(*color_of)); /* a group, plus 1 */
    int *group_of = color_of + n;                       /* a color, likewise */
    bool follows = true;
    size_t first = 0, second;

    while (comm->color[first] < 0)
        first++;
    second = first + 1;
    while (second < n && comm->color[second] != comm->color[first])
        second++;
    groups->size = (unsigned)comm->n_ranks;
    groups->stride = second < n ? (unsigned)(second - first) : 1;
    for (size_t r = 0; r < n && follows; r++) {
        const int color = comm->color[r];
        const unsigned group = stp_rank_groups_color(groups, (unsigned)r);

        if (color < 0)
            continue;
        follows = (color_of[group] == 0 || color_of[group] == color + 1) &&
                  (group_of[color] == 0 || group_of[color] == (int)group + 1);
        color_of[group] = color + 1;
        group_of[color] = (int)group + 1;
    }
    free(color_of);
    return follows;
}

static enum stp_status step_place_comms(struct making *m)
{
    const struct stp_trace *t = m->trace;
    int largest = 0;

    STP_TAKE(m->out->groups, t->n_comms);
    STP_TAKE(m->out->is_used, t->n_comms);
    for (size_t i = 0; i < t->n_comms; i++)
        if (t->comms[i].n_ranks > largest)
            largest = t->comms[i].n_ranks;
    for (size_t i = 0; i < t->n_comms; i++) {
        const struct stp_trace_comm *comm = &t->comms[i];
        struct stp_rank_groups groups = {0, 1}; /* in the trace; size 0: all */

        if (comm->color != NULL) {
            if (!step_find_rule(comm, &groups))
                return stp_fail_at(m->err, STP_ERR_RANGE, comm->line, 0,
                                   "communicator '%s' of ranks that are not "
                                   "equally far apart, expected such as "
                                   "0+2/1+3",
                                   comm->name);
        } else if (comm->stride != 0)
            groups =
                (struct stp_rank_groups){(unsigned)comm->n_ranks, comm->stride};
        else if (comm->n_ranks != largest)
            groups.size = (unsigned)comm->n_ranks;
        if (groups.size == 0 && comm->stride == 0)
            continue;
        groups = stp_rank_groups_cut(&groups, m->n_ranks);
        if (groups.size == 1 && m->n_ranks > 1)
            return stp_fail_at(m->err, STP_ERR_RANGE, comm->line, 0,
                               "communicator '%s' of %d ranks, which %u ranks "
                               "cannot be divided into",
                               comm->name, comm->n_ranks, m->n_ranks);
        if (groups.size < m->n_ranks)
            m->out->groups[i] = groups;
    }
    return STP_OK;
}

void stp_trace_keep_process(struct stp_trace *t)
{
    const uint64_t process = t->n_rows > 0 ? t->rows[0].process : 0;
    size_t n = 0, c = 0;

    for (size_t i = 0; i <= t->n_rows; i++) {
        for (; c < t->n_computes && t->computes[c].row == i; c++)
            t->computes[c].row = n;
        if (i < t->n_rows && t->rows[i].process == process)
            t->rows[n++] = t->rows[i];
    }
    t->n_rows = n;
}

/* ---- which step ---- */

static bool step_same_row(const struct stp_trace_row *a,
                          const struct stp_trace_row *b)
{
    return a->call.coll == b->call.coll && a->call.n_bytes == b->call.n_bytes &&
           a->comm == b->comm && a->type == b->type && a->op == b->op &&
           a->place.stream == b->place.stream;
}

/* A trace that does not number its steps has one in the sequence of collectives
 * that its last rows repeat. borders[] is that of the rows from the last on, as
 * Knuth, Morris and Pratt match words. */
static void step_choose_repeated(struct making *m)
{
    const struct stp_trace *t = m->trace;
    const size_t n = t->n_rows < MOST_REPEATED ? t->n_rows : MOST_REPEATED;
    size_t *borders = stp_take(n, sizeof(*borders));
    const struct stp_trace_row *last = &t->rows[t->n_rows - 1];
    size_t period = n;

    for (size_t i = 1, k = 0; i < n; i++) {
        while (k > 0 && !step_same_row(last - i, last - k))
            k = borders[k - 1];
        k += step_same_row(last - i, last - k);
        borders[i] = k;
        if (2 * (i + 1 - k) <= i + 1 && i + 1 >= MIN_REPEATED)
            period = i + 1 - k;
    }
    free(borders);
    m->out->n_steps = (unsigned)(t->n_rows / period);
    m->out->number = m->out->n_steps;
    m->first_row = t->n_rows - period;
}

/* Rows are in the order of steps. */
static void step_choose_largest(struct making *m)
{
    const struct stp_trace *t = m->trace;
    size_t most = 0;
    size_t c = 0;

    for (size_t i = 0, end; i < t->n_rows; i = end) {
        const unsigned step = t->rows[i].place.step;
        size_t n;

        for (end = i; end < t->n_rows && t->rows[end].place.step == step;)
            end++;
        n = end - i;
        /* a time is in pieces, as many as it is long */
        for (; c < t->n_computes && t->computes[c].place.step <= step; c++)
            n += t->computes[c].place.step == step && t->computes[c].us == 0;
        if (step == 0)
            continue;
        m->out->n_steps++;
        if (n >= most)
            m->out->number = step;
        most = n > most ? n : most;
    }
}

/* ---- its work ---- */

static void step_add(struct making *m, const struct stp_work *work)
{
    STP_THEN(m->status, stp_program_add(&m->out->work.program, work, m->err));
}

/* Makes 'to' wait for all work of 'from', if there is some since it did. */
static void step_join(struct making *m, unsigned from, unsigned to,
                      bool *is_new)
{
    const unsigned event = m->n_events;

    if (!*is_new)
        return;
    m->n_events++;
    *is_new = false;
    step_add(m, &(struct stp_work){
                    .kind = STP_WORK_RECORD, .stream = from, .event = event});
    step_add(m, &(struct stp_work){
                    .kind = STP_WORK_WAIT, .stream = to, .event = event});
}

static void step_end_group(struct making *m)
{
    if (m->group != 0)
        step_add(m, &(struct stp_work){.kind = STP_WORK_GROUP_END});
    m->group = 0;
}

/* Before work in a stream: main if the trace says so, comm for all of main. */
static void step_enter(struct making *m, const struct stp_trace_place *place)
{
    if (place->waits)
        step_join(m, STP_STREAM_COMM, STP_STREAM_MAIN, &m->comm_is_new);
    if (place->stream == STP_STREAM_COMM)
        step_join(m, STP_STREAM_MAIN, STP_STREAM_COMM, &m->main_is_new);
    if (place->stream == STP_STREAM_COMM)
        m->comm_is_new = true;
    else
        m->main_is_new = true;
}

static struct stp_collective step_collective(const struct making *m,
                                             const struct stp_trace_row *row)
{
    struct stp_collective c = {.coll = (int)row->call.coll,
                               .n_bytes = row->call.n_bytes,
                               .type = row->type,
                               .op = row->op,
                               .root = (unsigned)row->call.root,
                               .in_place = true,
                               .groups = m->out->groups[row->comm]};
    const unsigned n_ranks = stp_collective_ranks(&c, m->n_ranks);
    uint64_t grain;

    if (m->type >= 0 &&
        (row->type == STP_TYPE_F16 || row->type == STP_TYPE_BF16 ||
         row->type == STP_TYPE_F32 || row->type == STP_TYPE_F64))
        c.type = m->type;
    grain = (uint64_t)stp_type_size(c.type) * n_ranks;
    c.n_bytes = (c.n_bytes + grain - 1) / grain * grain;
    if (c.root >= n_ranks)
        c.root = 0;
    return c;
}

/* A group of several communicators or streams is one for each. */
static void step_add_row(struct making *m, const struct stp_trace_row *row,
                         const struct stp_trace_row *last,
                         const struct stp_trace_row *next)
{
    const bool goes_on = m->group != 0 && row->group == m->group &&
                         // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
                         row->comm == last->comm &&
                         row->place.stream == last->place.stream;
    const bool has_next =
        next != NULL && row->group != 0 && next->group == row->group &&
        next->comm == row->comm && next->place.stream == row->place.stream &&
        next->place.step == row->place.step;

    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
    if (row->call.n_bytes == 0)
        return;
    if (!goes_on) {
        step_end_group(m);
        step_enter(m, &row->place);
        if (has_next) {
            step_add(m, &(struct stp_work){.kind = STP_WORK_GROUP_BEGIN});
            m->group = row->group;
        }
    }
    m->out->is_used[row->comm] = true;
    step_add(m, &(struct stp_work){.kind = STP_WORK_COLLECTIVE,
                                   .stream = row->place.stream,
                                   .collective = step_collective(m, row)});
}

static void step_add_compute(struct making *m,
                             const struct stp_trace_compute *compute)
{
    struct stp_gemm gemm = compute->gemm;

    step_end_group(m);
    step_enter(m, &compute->place);
    m->out->n_gemms++;
    if (compute->us != 0 && m->status == STP_OK) {
        m->status =
            stp_traced_step_add_time(&m->out->work, compute->us, m->err);
        return;
    }
    if (m->type >= 0)
        gemm.type = m->type;
    step_add(m, &(struct stp_work){.kind = STP_WORK_GEMM,
                                   .stream = STP_STREAM_MAIN,
                                   .gemm = gemm});
}

/* Whether a row, or compute before that row, is of the step. */
static bool step_is_of(const struct making *m, size_t row,
                       const struct stp_trace_place *place)
{
    return m->trace->has_steps ? place->step == m->out->number
                               : row >= m->first_row;
}

static void step_add_all(struct making *m)
{
    const struct stp_trace *t = m->trace;
    size_t c = 0;

    m->main_is_new = true; /* comm begins with the step */
    for (size_t i = 0; i <= t->n_rows; i++) {
        for (; c < t->n_computes && t->computes[c].row == i; c++)
            if (step_is_of(m, i, &t->computes[c].place))
                step_add_compute(m, &t->computes[c]);
        if (i < t->n_rows && step_is_of(m, i, &t->rows[i].place))
            step_add_row(m, &t->rows[i], i > 0 ? &t->rows[i - 1] : NULL,
                         i + 1 < t->n_rows && (c == t->n_computes ||
                                               t->computes[c].row != i + 1)
                             ? &t->rows[i + 1]
                             : NULL);
    }
    step_end_group(m);
    step_join(m, STP_STREAM_COMM, STP_STREAM_MAIN, &m->comm_is_new);
}

enum stp_status stp_trace_step_make(const struct stp_trace *trace,
                                    unsigned n_ranks, int type,
                                    struct stp_trace_step *step_ret,
                                    struct stp_error *err)
{
    struct stp_trace_step out = {.number = 0};
    struct making m = {.trace = trace,
                       .out = &out,
                       .n_ranks = n_ranks,
                       .type = type,
                       .err = err};

    m.status = step_place_comms(&m);
    if (m.status == STP_OK) {
        if (trace->has_steps)
            step_choose_largest(&m);
        else
            step_choose_repeated(&m);
        step_add_all(&m);
    }
    stp_traced_step_finish(&out.work);
    if (m.status == STP_OK && out.work.n_colls == 0)
        m.status =
            STP_REFUSE(err, "a step without a collective of at least a byte");
    if (m.status == STP_OK)
        *step_ret = out;
    else
        stp_trace_step_free(&out);
    return m.status;
}

void stp_trace_step_free(struct stp_trace_step *step)
{
    stp_traced_step_free(&step->work);
    free(step->groups);
    free(step->is_used);
    *step = (struct stp_trace_step){.number = 0};
}

uint64_t stp_trace_max_bytes(const struct stp_trace *trace)
{
    uint64_t most = 0;

    for (size_t i = 0; i < trace->n_rows; i++)
        if (trace->rows[i].call.n_bytes > most)
            most = trace->rows[i].call.n_bytes;
    return most + ROUNDING;
}

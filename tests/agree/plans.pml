/*
 * plans.pml - the protocol of src/agree/planner.h as a model for spin: no two
 * ranks decide differently in an epoch, whatever fails
 *
 * Hosts of one rank each, of which host 0 leads; plan p begins in epoch p + 1,
 * is one word long, and there is no margin: a plan is ahead while its epoch is
 * not entered.  Limits of time may pass at any moment.
 *
 * Steps are joined where nothing that others do between them makes a difference:
 * a rank enters its epoch and looks; a host puts a plan and looks at its rank
 * (plan_board_test.cc runs these access by access); a connection is made and the
 * store asked whether it remembers, since a store that fails loses it again.
 *
 * Each request is applied at once and its reply taken, or its connection is
 * lost: then it is applied at any later time, or never (lost[]).  A set has no
 * reply, and seems to succeed even so.  A store that fails is gone, comes back,
 * or comes back empty.  Of a host fails the speaker, or all.
 *
 * What stands for which function of planner.c (tests/agree/plans.sh compares
 * the names), by the label of the stage:
 *
 *   LEAD      planner_ask_lead, planner_make_plan, planner_take_nap
 *   PUBLISH   planner_take_published
 *   FOLLOW    planner_ask_plan, planner_take_plan
 *   ROOM      planner_ask_room
 *   ACK       planner_ask_ack, planner_take_ack
 *   COMPLETE  planner_ask_complete, planner_take_complete
 *   GATHER    planner_ask_gather, planner_take_gathered
 *   COMMIT    planner_ask_commit, planner_take_verdict
 *   AWAIT     planner_ask_await, planner_take_known
 *   RECONNECT planner_ask_reconnect, planner_take_reconnected
 *   REFUSE    planner_ask_refuse, planner_take_refused
 *   REFUSED   planner_ask_refused, planner_take_told_leader
 *   TELL      planner_ask_tell, planner_take_told
 *   CLEAN     planner_ask_clean, planner_take_cleaned
 *   remember()  planner_ask_remember, planner_take_remembered
 *   drop()    planner_drop
 *   obey()    planner_obey
 *   go_on()   planner_go_on
 *
 * PLANTED is an error that must be found: 1 commits though not all hosts
 * acknowledged, 2 asks a store that may have forgotten, 3 drops what it asked
 * to commit, 4 acknowledges what ranks may have passed.
 */

#ifndef PLANTED
#define PLANTED 0
#endif
#define HOSTS 3
#ifndef PLANS
#define PLANS 2
#endif
#ifndef FAILURES
#define FAILURES 3 /* all together */
#endif
#ifndef LOSSES
#define LOSSES 1 /* of connections, limits of time not counted */
#endif
#ifndef CRASHES
#define CRASHES 1 /* of hosts */
#endif
#ifndef OUTAGES
#define OUTAGES 1 /* of the store */
#endif

#ifndef IMPATIENT
#define IMPATIENT 0
#endif

#define ALL_HOSTS ((1 << HOSTS) - 1)

/* States of a slot. */
#define NONE 0
#define ACKNOWLEDGED 1
#define COMMITTED 2
#define DROPPED 3
#define LOST 4

/* Values of keys; those of "acked" and of the verdicts. */
#define NOTHING 0
#define YES 1
#define ABORT 2

/* Requests that change the store. */
#define SET_PLAN 1
#define ADD_ACKS 2
#define SET_ACKED_ALL 3
#define SET_ACKED_ABORT 4
#define ASK_COMMIT 5
#define ASK_ABORT 6
#define SET_KNOWN_COMMIT 7
#define SET_KNOWN_ABORT 8

/* Stages of a speaker. */
#define LEAD 0
#define PUBLISH 1
#define FOLLOW 2
#define ROOM 3
#define AHEAD 4
#define ACK 5
#define COMPLETE 6
#define GATHER 7
#define COMMIT 9
#define AWAIT 10
#define RECONNECT 11
#define REFUSE 13
#define REFUSED 14
#define TELL 15
#define CLEAN 16
#define OVER 17

/* ---- the board of each host ---- */

byte slots[HOSTS * PLANS];
byte progress[HOSTS]; /* the epoch that its rank has entered */

#define slot slots[h * PLANS + p]

/* ---- the store ---- */

bool up = true;
bool plan[PLANS];
byte acks[PLANS];
byte acked[PLANS];
byte verdict[PLANS];
byte known[PLANS];

bool has_begun; /* host 1 */
bool is_in_doubt[HOSTS];
bool is_broken[HOSTS]; /* the connection */
byte lost[HOSTS];      /* a request that may still be applied */
byte lost_plan[HOSTS];

/* ---- failures, so far ---- */

byte n_failures;
byte n_losses;
byte n_crashes;
bool is_dead[HOSTS];      /* the speaker */
bool is_rank_dead[HOSTS];
bool has_lost_store;      /* for good, or all that it knew */
bool may_fail;            /* a rank: something was in doubt then */

/* ---- what is to be shown ---- */

byte acknowledged[PLANS]; /* by hosts: bits */
bool is_over[PLANS];      /* its keys were deleted */
bool is_taken[PLANS];     /* by a rank in its epoch */
bool is_passed[PLANS];    /* by a rank that changed nothing */

inline apply(op, q)
{
    if
    :: op == SET_PLAN -> plan[q] = true
    :: op == ADD_ACKS -> acks[q]++
    :: op == SET_ACKED_ALL -> acked[q] = YES
    :: op == SET_ACKED_ABORT -> acked[q] = ABORT
    :: op == ASK_COMMIT ->
       if
       :: verdict[q] == NOTHING ->
          verdict[q] = YES;
          assert(acknowledged[q] == ALL_HOSTS || is_over[q])
       :: else
       fi
    :: op == ASK_ABORT ->
       if
       :: verdict[q] == NOTHING -> verdict[q] = ABORT
       :: else
       fi
    :: op == SET_KNOWN_COMMIT -> known[q] = YES
    :: op == SET_KNOWN_ABORT -> known[q] = ABORT
    fi
}

inline lose(op)
{
    n_failures++;
    n_losses++;
    is_broken[h] = true;
    lost[h] = op;
    lost_plan[h] = p
}

/* A request with a reply: is_ok. */
inline ask(op)
{
    if
    :: is_broken[h] -> is_ok = false
    :: !is_broken[h] -> apply(op, p); is_ok = true
    :: !is_broken[h] && n_losses < LOSSES && n_failures < FAILURES -> lose(op); is_ok = false
    fi
}

inline set(op)
{
    if
    :: is_broken[h] -> is_ok = false
    :: is_broken[h] -> is_ok = true
    :: !is_broken[h] -> apply(op, p); is_ok = true
    :: !is_broken[h] && n_losses < LOSSES && n_failures < FAILURES -> lose(op); is_ok = false
    :: !is_broken[h] && n_losses < LOSSES && n_failures < FAILURES -> lose(op); is_ok = true
    fi
}

inline drop()
{
    if
    :: slot == ACKNOWLEDGED -> slot = DROPPED
    :: else
    fi
}

inline over()
{
    stage = OVER;
    p = 0;
    is_commit = false;
    is_in_doubt[h] = false;
    is_broken[h] = false
}

/* The verdict of the store, and the stage after it. */
inline obey(value, after)
{
    stage = after;
    is_in_doubt[h] = false;
    if
    :: value == YES ->
       is_commit = true;
       assert(slot == ACKNOWLEDGED || slot == LOST);
       if
       :: slot == ACKNOWLEDGED -> slot = COMMITTED
       :: else -> over()
       fi
    :: else ->
       is_commit = false;
       assert(slot != COMMITTED);
       drop()
    fi
}

inline go_on()
{
    is_commit = false;
    is_in_doubt[h] = false;
    p++;
    if
    :: p == PLANS -> over()
    :: else -> stage = (h == 0 -> LEAD : FOLLOW)
    fi
}

/* What the store is asked first after it was lost. */
inline remember()
{
    is_broken[h] = false;
    if
    :: plan[p] || PLANTED == 2 -> stage = REFUSE
    :: else ->
       if
       :: is_in_doubt[h] && slot == ACKNOWLEDGED -> slot = LOST
       :: else
       fi;
       over()
    fi
}

inline reconnect()
{
    if
    :: up -> remember()
    :: !up && (!is_in_doubt[h] || slot == LOST) -> over()
    :: else -> is_broken[h] = true; stage = RECONNECT
    fi
}

/* ---- a host's speaker ---- */

proctype speaker(byte h)
{
    byte stage = (h == 0 -> LEAD : FOLLOW);
    byte p;
    bool is_ok;
    bool is_commit; /* the verdict; what the leader asks for */

end:
    do
    :: atomic { stage != OVER && n_failures < FAILURES &&
                n_crashes < CRASHES ->
          n_failures++;
          n_crashes++;
          is_dead[h] = true;
          if
          :: is_rank_dead[h] = true
          :: skip
          fi;
          over() }
    :: atomic { stage == LEAD ->
          slot = ACKNOWLEDGED;
          stage = PUBLISH }
    :: atomic { stage == PUBLISH ->
          set(SET_PLAN);
          if
          :: is_ok -> stage = ACK
          :: else -> drop(); over()
          fi;
          is_ok = false }
    :: atomic { stage == FOLLOW && is_broken[h] ->
          over() }
    :: atomic { stage == FOLLOW && !is_broken[h] && plan[p] &&
                (h == 1 || has_begun) -> /* of two alike host 1 is the first */
          has_begun = true;
          stage = ROOM }
#if PLANTED == 4
    :: atomic { stage == ROOM ->
          stage = (progress[h] <= p -> AHEAD : REFUSE) }
    :: atomic { stage == AHEAD ->
          slot = ACKNOWLEDGED;
          is_in_doubt[h] = true;
          stage = ACK }
#else
    :: atomic { stage == ROOM ->
          slot = ACKNOWLEDGED;
          if
          :: progress[h] <= p -> is_in_doubt[h] = true; stage = ACK
          :: else -> drop(); stage = REFUSE
          fi }
#endif
    :: atomic { stage == ACK ->
          acknowledged[p] = acknowledged[p] | (1 << h);
          ask(ADD_ACKS);
          if
          :: is_ok && h == 0 -> stage = (acks[p] == HOSTS -> COMMIT : GATHER)
          :: is_ok && h != 0 -> stage = (acks[p] == HOSTS -> COMPLETE : AWAIT)
          :: !is_ok ->
             if
             :: h == 0 -> drop()
             :: else
             fi;
             reconnect()
          fi;
          is_ok = false }
    :: atomic { stage == COMPLETE ->
          set(SET_ACKED_ALL);
          if
          :: is_ok -> stage = AWAIT
          :: else -> reconnect()
          fi;
          is_ok = false }
    :: atomic { stage == GATHER && !is_broken[h] &&
                acked[p] == YES ->
          stage = COMMIT }
    :: atomic { stage == GATHER && !is_broken[h] &&
                acked[p] == ABORT ->
          drop();
          stage = REFUSE }
    :: atomic { stage == GATHER -> /* lost, or too late */
#if PLANTED == 1
          stage = COMMIT;
#else
          drop();
          reconnect()
#endif
       }
    :: atomic { stage == COMMIT ->
          if
          :: progress[h] <= p -> is_in_doubt[h] = true; ask(ASK_COMMIT)
          :: else -> drop(); ask(ASK_ABORT)
          fi;
          if
          :: is_ok -> obey(verdict[p], TELL)
          :: else ->
#if PLANTED == 3
             drop();
#endif
             reconnect()
          fi;
          is_ok = false }
    :: atomic { stage == AWAIT && !is_broken[h] &&
                known[p] != NOTHING ->
          obey(known[p], FOLLOW);
          if
          :: stage == FOLLOW -> go_on()
          :: else
          fi }
    :: atomic { stage == AWAIT -> /* lost, or too late */
          reconnect() }
    :: atomic { stage == RECONNECT &&
                (up || !is_in_doubt[h] || slot == LOST) ->
          reconnect() }
    :: atomic { stage == REFUSE ->
          ask(ASK_ABORT);
          if
          :: is_ok && (h == 0 || verdict[p] == YES) -> obey(verdict[p], TELL)
          :: is_ok && h != 0 && verdict[p] != YES -> obey(verdict[p], REFUSED)
          :: else -> reconnect()
          fi;
          is_ok = false }
    :: atomic { stage == REFUSED ->
          set(SET_ACKED_ABORT);
          if
          :: is_ok -> stage = TELL
          :: else -> over()
          fi;
          is_ok = false }
    :: atomic { stage == TELL ->
          if
          :: is_commit -> set(SET_KNOWN_COMMIT)
          :: else -> set(SET_KNOWN_ABORT)
          fi;
          if
          :: !is_ok -> over()
          :: is_ok && h == 0 && is_commit && p > 0 -> stage = CLEAN
          :: else -> go_on()
          fi;
          is_ok = false }
    :: atomic { stage == CLEAN -> /* of all plans before */
          if
          :: is_broken[h] -> over()
          :: else ->
             byte q = 0;
             do
             :: q < p ->
                plan[q] = false;
                acks[q] = 0;
                acked[q] = NOTHING;
                verdict[q] = NOTHING;
                known[q] = NOTHING;
                is_over[q] = true;
                q++
             :: else -> break
             od;
             q = 0;
             go_on()
          fi }
    od
}

/* ---- a host's rank: plan_board.c ---- */

/* A rank waits for longer than anything takes but a store that is lost for
 * good, or a speaker that is dead.  One that is IMPATIENT does not. */
#define GIVES_UP \
    (IMPATIENT || is_dead[h] || (has_lost_store && is_in_doubt[h]))

/* It enters its epoch, and looks. */
proctype rank(byte h)
{
    byte p;

    do
    :: atomic { p == PLANS || is_rank_dead[h] -> p = 0; break }
    :: atomic { p < PLANS && !is_rank_dead[h] &&
                (slot == NONE || slot == DROPPED) ->
          progress[h] = p + 1;
          is_passed[p] = true;
          assert(!is_taken[p]);
          p++ }
    :: atomic { p < PLANS && !is_rank_dead[h] && slot == COMMITTED ->
          progress[h] = p + 1;
          is_taken[p] = true;
          assert(!is_passed[p]);
          p++ }
    :: atomic { p < PLANS && !is_rank_dead[h] && slot == LOST ->
          assert(IMPATIENT || is_dead[h] || may_fail);
          p = 0;
          break }
    :: atomic { p < PLANS && !is_rank_dead[h] && slot == ACKNOWLEDGED &&
                progress[h] == p ->
          progress[h] = p + 1 } /* and waits */
    :: atomic { p < PLANS && !is_rank_dead[h] && slot == ACKNOWLEDGED &&
                progress[h] > p && GIVES_UP ->
          slot = LOST }
    od
}

/* ---- failures, and requests that are late ---- */

inline late(j)
{
    apply(lost[j], lost_plan[j]);
    lost[j] = 0;
    lost_plan[j] = 0
}

inline outage()
{
    up = false;
    i = 0;
    do
    :: i < HOSTS -> is_broken[i] = true; lost[i] = 0; lost_plan[i] = 0; i++
    :: else -> break
    od;
    i = 0
}

inline forget()
{
    i = 0;
    do
    :: i < PLANS ->
       plan[i] = false;
       acks[i] = 0;
       acked[i] = NOTHING;
       verdict[i] = NOTHING;
       known[i] = NOTHING;
       i++
    :: else -> break
    od;
    i = 0
}

/* What is in doubt may cost ranks: a plan that a host has put, or will. */
inline lose_store()
{
    has_lost_store = true;
    i = 0;
    do
    :: i < HOSTS * PLANS ->
       if
       :: slots[i] == ACKNOWLEDGED || (slots[i] == NONE && plan[i % PLANS]) ->
          may_fail = true
       :: else
       fi;
       i++
    :: else -> break
    od;
    i = 0
}

proctype failures()
{
    byte n_outages;
    byte i;

end:
    do
    :: atomic { up && n_failures < FAILURES && n_outages < OUTAGES ->
          n_failures++;
          n_outages++;
          if
          :: lose_store(); outage(); forget() /* gone for good */
          :: lose_store(); outage(); forget(); up = true
          :: outage()
          fi }
    :: atomic { !up && !has_lost_store -> up = true } /* it comes back */
    :: atomic { up && lost[0] != 0 -> late(0) }
    :: atomic { up && lost[1] != 0 -> late(1) }
    :: atomic { up && lost[2] != 0 -> late(2) }
    od
}

init
{
    byte h = 0;

    atomic {
        do
        :: h < HOSTS -> run speaker(h); run rank(h); h++
        :: else -> break
        od;
        run failures()
    }
}

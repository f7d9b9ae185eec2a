/* The queue of `adds`, small enough to be checked exhaustively: one manager, N_WORKERS workers, tiny buckets.
 *
 * What is checked, by the invariants' numbers in docs/design/0002-adds-queue.md:
 *   I1 no word is read before it is written          I2 each word is taken exactly once
 *   I3, I5 no bucket is retired while somebody works on it, or while what it spawned is not yet reserved
 *   I4 no block is freed or mapped again while it is in use
 *   I6 no early end: at the end every word made was taken, and nobody works
 *   I7 everybody comes to an end (ltl `everybody_leaves`, weak fairness), also when the pool is exhausted
 *
 * A word is an id from 1 on; 0 is memory never written. Relaxing a word spawns any number of words, into any
 * bucket, until MAX_WORDS are made: any graph, any distances, any delta (I9).
 *   CHAIN=n   a worker keeps up to n words that it spawns, and relaxes them before its assignment is completed
 *   REBIN     a worker sends a word that it takes back to any bucket, once, instead of relaxing it
 *
 * Spin is sequentially consistent. So a fence that is dropped (-DDROP_…) is modelled as the reordering that it
 * would have forbidden; the other mutations break a counter or an order. Each must make the check fail:
 *   DROP_F1 written before the word                  DROP_F2 reserved read before written
 *   DROP_F5 completed before the spawned reservation DROP_F6 reserved read before completed
 *   DROP_F7 mapped before the counters are zeroed    COUNT_AT_ASSIGN completed when assigned
 *   FREE_WHEN_READ block freed when read, not completed
 *   END_IGNORES_FLAGS end without looking at flags   ONE_SWEEP, with LATE_FLAGS: one empty sweep is the end
 *   NO_MAPPING_AHEAD the manager maps only what it has read
 *   NO_POISON an exhausted pool is not told
 *   CHAIN_AFTER_COMPLETED completed before the chain is relaxed
 *   REBIN_AFTER_COMPLETED completed before the word that goes back is reserved
 * LATE_FLAGS reads the flags after `reserved`: in one sweep their order is free, and the protocol must hold.
 */
#ifndef N_WORKERS
#define N_WORKERS 2
#endif
#ifndef N_BUCKETS
#define N_BUCKETS 2
#endif
#ifndef N_HEADS
#define N_HEADS 1
#endif
#ifndef MAX_WORDS
#define MAX_WORDS 4
#endif
#ifndef N_BLOCKS
#define N_BLOCKS 5
#endif
#ifndef CHAIN
#define CHAIN 0
#endif
#define SEGMENT 2               /* words in a segment */
#define BLOCK 2                 /* words in a block: one segment */
#define N_SLOTS 4               /* entries of a bucket's block table */

/* ---- shared memory of the device ---- */
byte reserved[N_BUCKETS];
byte mapped[N_BUCKETS * N_SLOTS];       /* block + 1; 0 is not mapped */
byte word[N_BLOCKS * BLOCK];
byte written[N_BLOCKS];                 /* of the one segment of each block */
byte completed[N_BLOCKS];
byte flag[N_WORKERS];                   /* place + 1 and, beside it in the same 64 bits, how many */
byte flag_count[N_WORKERS];
bool poison;                            /* the run failed; whoever waits leaves */
bool stop;                              /* no more work comes */
byte head;

/* ---- what only the checker sees ---- */
byte made = 0;                          /* words reserved so far */
bool taken[MAX_WORDS + 1];
byte working[N_BUCKETS];                /* words taken from the bucket and truly not done */
byte waiting[N_BUCKETS];                /* words reserved in it and not yet taken */
byte own_waiting[N_BUCKETS];            /* those of them that a word of the same bucket spawned */
bool of_own[MAX_WORDS + 1];
bool rebinned[MAX_WORDS + 1];           /* words that went back once */
byte owner[N_BLOCKS];                   /* bucket + 1 that the block is mapped in; 0 is free */
bool ended;
byte n_left = 0;

/* Publish word `id` in bucket `target`, in which it was given place `index`. */
inline publish()
{
    (mapped[target * N_SLOTS + index / BLOCK] != 0 || poison);  /* I7 */
    if
    :: poison -> skip
    :: else ->
        block = mapped[target * N_SLOTS + index / BLOCK] - 1;
#ifdef DROP_F1
        written[block]++;
        word[block * BLOCK + index % BLOCK] = id
#else
        word[block * BLOCK + index % BLOCK] = id;
        written[block]++                                        /* F1 stands before it */
#endif
    fi
}

inline choose_bucket()
{
    target = head;
    if                                                          /* any bucket: I9 */
    :: skip
    :: target = (target + 1) % N_BUCKETS
#if N_BUCKETS > 2
    :: target = (target + 2) % N_BUCKETS
#endif
    fi
}

inline reserve()
{
    index = reserved[target]; reserved[target]++; waiting[target]++;
    of_own[id] = (target == own);
    own_waiting[target] = own_waiting[target] + of_own[id]
}

inline complete()
{
    completed[place / BLOCK] = completed[place / BLOCK] + n
}

proctype worker(byte me)
{
    byte place, n, i, id, index, block, own, target, n_chain;
    byte chain[CHAIN + 1];
    bool goes_back, is_counted;
    do
    :: stop -> break
    :: flag[me] != 0 && !stop ->
        place = flag[me] - 1; n = flag_count[me];               /* F4 */
        own = owner[place / BLOCK] - 1;
        i = 0;
        do
        :: i < n || n_chain > 0 ->
            goes_back = false;
            if
            :: n_chain > 0 -> atomic {                          /* the chain first */
                n_chain--;
                id = chain[n_chain]; chain[n_chain] = 0;
                assert(!taken[id]);                             /* I2 */
                taken[id] = true
            }
            :: n_chain == 0 -> atomic {
                id = word[place + i];
                assert(id != 0);                                /* I1 */
                assert(!taken[id]);                             /* I2 */
                taken[id] = true;
                assert(waiting[own] > 0);
                waiting[own]--; working[own]++;
                own_waiting[own] = own_waiting[own] - of_own[id];
                of_own[id] = false;
                i++
            };
#ifdef REBIN
                if
                :: !rebinned[id] && !poison -> goes_back = true
                :: skip
                fi
#endif
            fi;
#ifdef REBIN
            if
            :: goes_back ->
                choose_bucket();
#ifdef REBIN_AFTER_COMPLETED
                if
                :: i == n -> complete()
                :: else -> skip
                fi;
#endif
                atomic { rebinned[id] = true; taken[id] = false; reserve() };
                publish();
                goto next
            :: else -> skip
            fi;
#endif
#ifdef DROP_F5
            if
            :: i == n && n_chain == 0 -> complete()
            :: else -> skip
            fi;
#endif
            do
            :: made < MAX_WORDS && !poison ->
                choose_bucket();
                atomic {
                    if
                    :: made == MAX_WORDS -> break
                    :: else -> skip
                    fi;
                    made++; id = made;
                    if
                    :: true -> reserve()
#if CHAIN > 0
                    :: n_chain < CHAIN -> chain[n_chain] = id; n_chain++; id = 0
#endif
                    fi
                }
                if
                :: id != 0 -> publish()
                :: else -> skip
                fi
            :: break
            od;
next:
#ifdef CHAIN_AFTER_COMPLETED
            if
            :: i == n && !is_counted -> complete(); is_counted = true
            :: else -> skip
            fi;
#endif
            skip
        :: else -> break
        od;
        atomic { working[own] = working[own] - n; id = 0; index = 0; block = 0; target = 0 }
#if !defined(DROP_F5) && !defined(COUNT_AT_ASSIGN) && !defined(CHAIN_AFTER_COMPLETED) && !defined(REBIN_AFTER_COMPLETED)
        complete();                                             /* F5 stands before it */
#endif
        atomic { flag[me] = 0; place = 0; n = 0; i = 0; own = 0; is_counted = false }
    od;
    n_left++
}

/* Map a block at the bucket's next slot, or poison the run. */
inline map_block(bucket)
{
    atomic {
        blk = 0;
        do
        :: blk < N_BLOCKS && owner[blk] != 0 -> blk++
        :: else -> break
        od
    }
    if
    :: blk == N_BLOCKS ->
#ifndef NO_POISON
        poison = true
#else
        skip
#endif
    :: else ->
#ifdef DROP_F7
        atomic { owner[blk] = bucket + 1; mapped[bucket * N_SLOTS + n_mapped[bucket]] = blk + 1; n_mapped[bucket]++ };
        atomic { written[blk] = 0; completed[blk] = 0 }
#else
        atomic { written[blk] = 0; completed[blk] = 0; word[blk * BLOCK] = 0; word[blk * BLOCK + 1] = 0 };
        /* F7 stands between */
        atomic { owner[blk] = bucket + 1; mapped[bucket * N_SLOTS + n_mapped[bucket]] = blk + 1; n_mapped[bucket]++ }
#endif
    fi
}

/* `known[b]`: words of bucket b known to be written (I1). */
inline scan(b)
{
    do
    :: known[b] / BLOCK < n_mapped[b] ->
        blk = mapped[b * N_SLOTS + known[b] / BLOCK] - 1;
#ifdef DROP_F2
        r = reserved[b];
        c = written[blk];
#else
        c = written[blk];
        r = reserved[b];                                        /* F2 stands between */
#endif
        if
        :: c == SEGMENT -> known[b] = (known[b] / SEGMENT + 1) * SEGMENT
        :: c < SEGMENT && (known[b] / SEGMENT) * SEGMENT + c == r -> known[b] = r; break
        :: else -> break
        fi
    :: else -> break
    od
}

/* Free what is completed; `finished` tells whether all that the bucket holds is completed (I5). */
inline sweep_completed(b)
{
    finished = false;
    do
    :: n_freed[b] < n_mapped[b] ->
        blk = mapped[b * N_SLOTS + n_freed[b]] - 1;
#ifdef DROP_F6
        r = reserved[b];
        c = completed[blk];
#else
        c = completed[blk];
        r = reserved[b];                                        /* F6 stands between */
#endif
#ifdef FREE_WHEN_READ
        if
        :: assigned[b] >= (n_freed[b] + 1) * BLOCK -> c = BLOCK
        :: else -> skip
        fi;
#endif
        if
        :: c == BLOCK ->
            /* I4 */
            atomic { owner[blk] = 0; n_freed[b]++ }
        :: else -> finished = (n_freed[b] * BLOCK + c == r); break
        fi
    :: else -> r = reserved[b]; finished = (n_freed[b] * BLOCK == r); break
    od
}

inline assign(b)
{
    w = 0;
    do
    :: w < N_WORKERS && assigned[b] < known[b] ->
        if
        :: flag[w] == 0 ->
            blk = mapped[b * N_SLOTS + assigned[b] / BLOCK] - 1;
            /* up to the end of the block, or a single word */
            c = known[b] - assigned[b];
            if
            :: c > BLOCK - assigned[b] % BLOCK -> c = BLOCK - assigned[b] % BLOCK
            :: else -> skip
            fi;
            if
            :: c > 1 -> c = 1
            :: skip
            fi;
            atomic {
                flag_count[w] = c;
                flag[w] = blk * BLOCK + assigned[b] % BLOCK + 1; /* one 64-bit store, after F3 */
#ifdef COUNT_AT_ASSIGN
                completed[blk] = completed[blk] + c;
#endif
                assigned[b] = assigned[b] + c;
                some = true
            }
        :: else -> skip
        fi;
        w++
    :: else -> break
    od
}

proctype manager()
{
    byte known[N_BUCKETS], assigned[N_BUCKETS], n_mapped[N_BUCKETS], n_freed[N_BUCKETS];
    byte b, blk, c, r, w, k, empty_sweeps;
    bool some, all_idle, all_read, finished;
    n_mapped[0] = 1;
    do
    :: ended -> break
    :: !ended ->
        some = false; all_idle = true; all_read = true;
#ifndef LATE_FLAGS
        w = 0;
        do
        :: w < N_WORKERS -> if :: flag[w] != 0 -> all_idle = false :: else -> skip fi; w++
        :: else -> break
        od;
#endif
        /* F6: what idle workers reserved is seen from here on */
        b = 0;
        do
        :: b < N_BUCKETS && !poison ->
            scan(b);
            r = reserved[b];
            if :: assigned[b] != r -> all_read = false :: else -> skip fi;
#ifdef NO_MAPPING_AHEAD
            if :: known[b] >= n_mapped[b] * BLOCK && assigned[b] > 0 -> map_block(b) :: else -> skip fi;
#else
            if :: r >= n_mapped[b] * BLOCK -> map_block(b) :: else -> skip fi;
#endif
            b++
        :: else -> break
        od;
        k = 0;
        do
        :: k < N_HEADS && !poison -> b = (head + k) % N_BUCKETS; assign(b); k++
        :: else -> break
        od;
        b = 0;
        do
        :: b < N_BUCKETS && !poison ->
            sweep_completed(b);
            if
            :: b == head && finished && !(all_idle && all_read) ->
                atomic {
                    assert(working[b] == 0 && own_waiting[b] == 0); /* I3, I5 */
                    head = (head + 1) % N_BUCKETS
                }
            :: else -> skip
            fi;
            b++
        :: else -> break
        od;
#ifdef LATE_FLAGS
        w = 0;
        do
        :: w < N_WORKERS -> if :: flag[w] != 0 -> all_idle = false :: else -> skip fi; w++
        :: else -> break
        od;
#endif
#ifdef ONE_SWEEP
        empty_sweeps = 1;
#endif
#ifdef END_IGNORES_FLAGS
        all_idle = true;
#endif
        if
        :: all_idle && all_read && !some -> empty_sweeps++
        :: else -> empty_sweeps = 0
        fi;
        if
        :: empty_sweeps == 2 || poison ->
            atomic {
                if
                :: !poison ->                                   /* I6 */
                    b = 0;
                    do
                    :: b < N_BUCKETS -> assert(working[b] == 0 && waiting[b] == 0); b++
                    :: else -> break
                    od;
                    b = 1;
                    do
                    :: b <= made -> assert(taken[b]); b++
                    :: else -> break
                    od
                :: else -> skip
                fi;
                stop = true;
                ended = true
            }
        :: else -> skip
        fi;
        atomic { b = 0; blk = 0; c = 0; r = 0; w = 0; k = 0; finished = false }
    od;
    n_left++
}

init
{
    byte w;
    atomic {
        /* the host writes the source into the head bucket and maps its first block */
        word[0] = 1; written[0] = 1; reserved[0] = 1; mapped[0] = 1; owner[0] = 1;
        made = 1; waiting[0] = 1;
        run manager();
        w = 0;
        do
        :: w < N_WORKERS -> run worker(w); w++
        :: else -> break
        od
    }
}

#ifdef LIVENESS
ltl everybody_leaves { <> (n_left == N_WORKERS + 1) }
#endif

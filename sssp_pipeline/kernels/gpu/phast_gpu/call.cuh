// What the kernels of a call share: `climb.cu`, `front_rows.cu` and `phast_gpu.cu`.
#pragma once

#include "summary.cuh"
#include "sweep_words.cuh"

constexpr word32 kWholeWarp = 0xffffffff;
constexpr word32 kTile = 8;
// The most vertices of a chunk of the last band.
constexpr word32 kMostLow = 64;

// Words that are read or written together.
template <typename Word, word32 kWords>
struct alignas(sizeof(Word) * kWords) Words {
    Word words[kWords];
};

template <int kEach>
using Lanes = Words<packed_word, kEach>;

// The packed words of 16 bytes.
constexpr word32 kVector = 16 / sizeof(packed_word);
using Vector = Lanes<kVector>;

// The entries first to end - 1 of a source, in one chunk.
struct Segment {
    word32 chunk;
    word32 first;
    word32 end;
    word32 unused;
};

struct Tile {
    word64 matrix;  // its first word in from_boundary
    word32 first_boundary;
    word32 n_boundary;
    word32 chunk;
    word32 first_place;
    word32 first_local;  // first_place, counted from that of the chunk
    word32 n_rows;
};

// What a way up read: entries, and words of matrices.
struct Climbed {
    word64 entries;
    word64 words;
};

// What all launches of a batch get. One argument takes less of the host's time than twenty.
struct Call {
    // The hierarchy.
    const word32* places;            // (V,): the place of each vertex
    const word32* chunks_of_places;  // (V,)
    const word32* next_chunks;       // (V,): the chunk above each place
    const Chunk* shapes;             // of all chunks
    const word32* boundary;          // places of chunks, then of tiles
    const uint2* marks;              // the depth and the chunk of each boundary vertex of a chunk
    const stored_word* to_boundary;
    const stored_word* from_boundary;
    const stored_word* from_own;
    const Tile* tiles;               // of all chunks
    const Tile* swept;               // those that sweep_kernel takes
    const word64* edges_before;      // (V+1,): how many edges leave the vertices of lower places
    // Memory of the call. A source is a lane.
    sweep_word* kept;                // (n_sources, n_depths), used if not is_shared
    word32* entry_places;            // (n_sources, n_depths), counted from the first of the chunk
    sweep_word* entry_distances;     // (n_sources, n_depths)
    Segment* segments;               // (n_sources, n_segments): those of each chunk, the top last
    Climbed* climbed;                // (n_sources,)
    word32* seeded;                  // (C, n_lanes / 32), a bit for each chunk and lane
    word32* near;                    // (C, n_lanes / 32), not 0 if a distance there is below the limit; or null
    sweep_word* low_seeds;           // (n_lanes, kMostLow)
    stored_word* rows;               // by place, (V, n_lanes), or fewer places if few are needed
    const word32* columns;           // (n_columns,): the places of the vertices whose distances are returned
    // The batch.
    const word32* sources;           // (n_sources,)
    Summary* summaries;              // (n_sources,)
    distance_bits* rows_by_source;   // (n_sources, n_columns)
    word64 limit;                    // what is at least this long counts as unreached
    word64 beyond;                   // ... and is returned as this
    const word32* climbs_together;   // (C,), not 0 for fronts that up_kernel climbs; or null
    word64 n_cleared;                // how many words of `rows` are kInfinity but for seeds, from the first on
    word32 n_vertices;
    word32 n_chunks;
    word32 n_columns;
    word32 n_sources;
    word32 n_lanes;
    word32 n_depths;
    word32 n_segments;
    word32 is_shared;
    word32 first_low;                // the first chunk of the last band
    word32 first_low_tile;           // the first tile of the last band, in `tiles` or `swept`
    word32 n_tiles;
    word32 writes;                   // whether the last band is written
};

static_assert(sizeof(Segment) == 16 && sizeof(Tile) == 32 && sizeof(Climbed) == 16, "as Python reads and writes them");

// What the program says about itself: "rank", "job" and the like, for display only.
//
// Threads: any; a lock, held for a copy at most, and over fork().
// Errors:  as profd_set_metadata().
#ifndef PROFD_CLIENT_LIB_CORE_METADATA_H_
#define PROFD_CLIENT_LIB_CORE_METADATA_H_

#include <cstdint>

#include "client_lib/core/frame_builder.h"
#include "client_lib/include/profd/profd.h"

namespace profd::client {

// Takes RANK, LOCAL_RANK, WORLD_SIZE, SLURM_JOB_ID, PROFD_JOB, PROFD_OPTOUT and others as they
// stand now.
void ReadMetadataFromEnvironment();

profd_result SetMetadata(const char* key, const char* value);

// Counts the changes so far; the agent sends when it has grown.
uint64_t MetadataVersion();

// Adds one kMetadata field per key. Returns the version that was added.
uint64_t AddMetadataFields(FrameBuilder& frame);

void LockMetadata();
void UnlockMetadata();

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_METADATA_H_

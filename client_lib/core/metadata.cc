#include "client_lib/core/metadata.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "proto/wire/frame.h"

namespace profd::client {
namespace {

constexpr size_t kMaxKeyBytes = 63;
constexpr size_t kMaxValueBytes = 255;

struct Item {
  char key[kMaxKeyBytes + 1];
  char value[kMaxValueBytes + 1];
};

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
constinit Item g_items[wire::kMaxMetadataFields] = {};
constinit uint32_t g_item_count = 0;
constinit std::atomic<uint64_t> g_version{0};

bool IsKey(const char* key) {
  if (key[0] < 'a' || key[0] > 'z') return false;
  const size_t length = strlen(key);
  return length <= kMaxKeyBytes && strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_.") == length;
}

profd_result SetLocked(const char* key, const char* value) {
  uint32_t index = 0;
  while (index < g_item_count && strcmp(g_items[index].key, key) != 0) ++index;
  if (index == wire::kMaxMetadataFields) return PROFD_LIMIT;
  if (index == g_item_count) {
    strcpy(g_items[index].key, key);
    ++g_item_count;
  }
  strcpy(g_items[index].value, value);
  g_version.fetch_add(1, std::memory_order_release);
  return PROFD_OK;
}

}  // namespace

void ReadMetadataFromEnvironment() {
  constexpr const char* kVariables[][2] = {{"RANK", "rank"},
                                           {"LOCAL_RANK", "local_rank"},
                                           {"WORLD_SIZE", "world_size"},
                                           {"SLURM_JOB_ID", "slurm_job_id"},
                                           {"SLURM_PROCID", "slurm_procid"},
                                           {"TORCHELASTIC_RUN_ID", "torchelastic_run_id"},
                                           {"PROFD_JOB", "job"},
                                           {"PROFD_OPTOUT", "optout"}};
  for (const auto& [variable, key] : kVariables) {
    const char* value = getenv(variable);
    if (value != nullptr && value[0] != '\0') SetMetadata(key, value);
  }
}

profd_result SetMetadata(const char* key, const char* value) {
  if (key == nullptr || value == nullptr || !IsKey(key) || strlen(value) > kMaxValueBytes) {
    return PROFD_INVALID;
  }
  LockMetadata();
  const profd_result result = SetLocked(key, value);
  UnlockMetadata();
  return result;
}

uint64_t MetadataVersion() { return g_version.load(std::memory_order_acquire); }

uint64_t AddMetadataFields(FrameBuilder& frame) {
  LockMetadata();
  const uint64_t version = g_version.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < g_item_count; ++i) {
    char text[kMaxKeyBytes + 1 + kMaxValueBytes + 1];
    const size_t key_length = strlen(g_items[i].key);
    const size_t value_length = strlen(g_items[i].value);
    memcpy(text, g_items[i].key, key_length);
    text[key_length] = '=';
    memcpy(text + key_length + 1, g_items[i].value, value_length);
    frame.AddField(wire::FieldTag::kMetadata, text, key_length + 1 + value_length);
  }
  UnlockMetadata();
  return version;
}

void LockMetadata() { pthread_mutex_lock(&g_mutex); }
void UnlockMetadata() { pthread_mutex_unlock(&g_mutex); }

}  // namespace profd::client

// The reports on the GPU as text and as JSON. `limit` rows of each table; 0: all.
#ifndef PROFD_CLI_RENDER_GPU_H_
#define PROFD_CLI_RENDER_GPU_H_

#include <cstdint>
#include <string>

#include "cli/base/style.h"
#include "cli/client/capture_view.h"
#include "daemon/base/json_writer.h"
#include "daemon/report/gpu/copy_table.h"
#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/gpu/sync_table.h"

namespace profd::cli {

// The table has its limit already.
std::string RenderKernels(const report::KernelTable& table, const Style& style);
void WriteKernelsJson(const CaptureView& view, const report::KernelTable& table, JsonWriter& json);

std::string RenderCopies(const report::CopyTable& table, int64_t limit, const Style& style);
void WriteCopiesJson(const CaptureView& view, const report::CopyTable& table, int64_t limit,
                     JsonWriter& json);

std::string RenderSyncs(const report::SyncTable& table, int64_t limit, const Style& style);
void WriteSyncsJson(const CaptureView& view, const report::SyncTable& table, int64_t limit,
                    JsonWriter& json);

std::string RenderIdle(const report::IdleTable& table, int64_t limit, const Style& style);
void WriteIdleJson(const CaptureView& view, const report::IdleTable& table, int64_t limit,
                   JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_GPU_H_

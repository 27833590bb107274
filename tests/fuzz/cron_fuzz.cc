// Bytes as a cron expression: what is taken comes at whole minutes, later and later.
#include <string_view>

#include "daemon/schedule/cron.h"
#include "tests/fuzz/fuzz_target.h"

PROFD_FUZZ_TARGET(FuzzCron)(std::span<const uint8_t> data) {
  const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
  const auto cron = profd::CronExpression::Parse(text);
  if (!cron.ok()) return;
  const auto require = [](bool holds) {
    if (!holds) __builtin_trap();
  };
  require(cron->ShortestGap() >= absl::Minutes(1));
  absl::Time at = absl::FromUnixSeconds(1'800'000'000);
  for (int i = 0; i < 20; ++i) {
    const absl::Time next = cron->Next(at);
    require(next > at);
    if (next == absl::InfiniteFuture()) return;
    require(absl::ToUnixSeconds(next) % 60 == 0);
    at = next;
  }
}

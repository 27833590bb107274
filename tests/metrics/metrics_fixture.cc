#include "tests/metrics/metrics_fixture.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "daemon/base/str_cat.h"

namespace profd::metrics {
namespace {

std::vector<const prometheus::ClientMetric*> Find(
    const std::vector<prometheus::MetricFamily>& families, std::string_view name,
    const LabelMap& labels, prometheus::MetricType* type = nullptr) {
  std::vector<const prometheus::ClientMetric*> found;
  for (const prometheus::MetricFamily& family : families) {
    if (family.name != name) continue;
    if (type != nullptr) *type = family.type;
    for (const prometheus::ClientMetric& metric : family.metric) {
      const bool has_all = std::ranges::all_of(labels, [&](const auto& label) {
        return std::ranges::count(metric.label,
                                  prometheus::ClientMetric::Label{label.first, label.second}) == 1;
      });
      if (has_all) found.push_back(&metric);
    }
  }
  return found;
}

}  // namespace

std::optional<double> ValueOf(const std::vector<prometheus::MetricFamily>& families,
                              std::string_view name, const LabelMap& labels) {
  prometheus::MetricType type = prometheus::MetricType::Untyped;
  const auto found = Find(families, name, labels, &type);
  EXPECT_LE(found.size(), 1U) << name << " is not told apart";
  if (found.empty()) return std::nullopt;
  return type == prometheus::MetricType::Counter ? found[0]->counter.value : found[0]->gauge.value;
}

int CountOf(const std::vector<prometheus::MetricFamily>& families, std::string_view name,
            const LabelMap& labels) {
  return static_cast<int>(Find(families, name, labels).size());
}

UniqueFd ConnectTo(uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

void Send(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // Turned away: the answer tells.
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

std::string ReadAll(int fd) {
  std::string all;
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t size = read(fd, piece.data(), piece.size());
    if (size <= 0) return all;
    all.append(piece.data(), static_cast<size_t>(size));
  }
}

std::string Ask(uint16_t port, std::string_view request) {
  const UniqueFd fd = ConnectTo(port);
  Send(fd.get(), request);
  return ReadAll(fd.get());
}

std::string Get(uint16_t port, std::string_view path) {
  return Ask(port, StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
}

}  // namespace profd::metrics

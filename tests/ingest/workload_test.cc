// Which job, pod and container a cgroup names, and which it only seems to.
#include "daemon/ingest/workload.h"

#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace profd {
namespace {

const std::string kId(64, 'a');
constexpr char kUid[] = "8c2a0e4e-1111-2222-3333-444455556666";

TEST(WorkloadTest, JobsOfSlurmOfBothVersions) {
  EXPECT_EQ(WorkloadOf("0::/system.slice/slurmstepd.scope/job_88123/step_0/user/task_0").slurm_job,
            "88123");
  EXPECT_EQ(WorkloadOf("0::/system.slice/n1_slurmstepd.scope/job_5/step_0").slurm_job, "5");
  EXPECT_EQ(WorkloadOf("9:cpu,cpuacct:/slurm/uid_1000/job_7/step_0\n8:pids:/x\n").slurm_job, "7");
  EXPECT_EQ(WorkloadOf("9:memory:/slurm_n1/uid_1000/job_7").slurm_job, "7");
}

TEST(WorkloadTest, FoldersThatOnlyLookLikeAJobAreNone) {
  for (const char* cgroup :
       {"0::/user.slice/job_5", "0::/slurm/job_5", "0::/x/uid_1/job_5", "0::/slurmstepd.scope/job_",
        "0::/slurmstepd.scope/job_5x", "0::/slurmstepd.scope/x/job_5", "", "0", "::", "\n\n"}) {
    EXPECT_EQ(WorkloadOf(cgroup).slurm_job, "") << cgroup;
  }
  EXPECT_EQ(WorkloadOf("0::/slurmstepd.scope/job_1/user/slurmstepd.scope/job_2").slurm_job, "1")
      << "what a user makes below its own job does not count";
}

TEST(WorkloadTest, PodsAndContainersOfBothDrivers) {
  const Workload systemd = WorkloadOf(
      "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-"
      "pod8c2a0e4e_1111_2222_3333_444455556666.slice/cri-containerd-" +
      kId + ".scope");
  EXPECT_EQ(systemd.pod_uid, kUid);
  EXPECT_EQ(systemd.container_id, kId);
  const Workload cgroupfs =
      WorkloadOf("0::/../../kubepods/besteffort/pod" + std::string(kUid) + "/" + kId);
  EXPECT_EQ(cgroupfs.pod_uid, kUid);
  EXPECT_EQ(cgroupfs.container_id, kId);
  EXPECT_EQ(WorkloadOf("0::/docker/" + kId).container_id, kId);
  EXPECT_EQ(WorkloadOf("0::/docker/" + kId + "a").container_id, "");
  EXPECT_EQ(WorkloadOf("0::/x/tripod" + std::string(kUid)).pod_uid, "");
  EXPECT_EQ(WorkloadOf("0::/x/pod" + std::string(kUid) + "0").pod_uid, "");
}

TEST(WorkloadTest, ThePodsNamesComeFromTheKubeletsFolders) {
  std::string name = ::testing::TempDir() + "profd_pods_XXXXXX";
  const std::filesystem::path folder = mkdtemp(name.data());
  std::filesystem::create_directory(folder / ("train_rank-0_" + std::string(kUid)));
  std::filesystem::create_directory(folder / ("other_x_" + std::string(35, '1')));
  std::filesystem::create_directory(folder / std::string(kUid));
  Workload workload{.pod_uid = kUid};
  FindPodNames(folder, workload);
  EXPECT_EQ(workload.pod_namespace, "train");
  EXPECT_EQ(workload.pod_name, "rank-0");

  std::filesystem::permissions(folder, std::filesystem::perms(0777));
  Workload untrusted{.pod_uid = kUid};
  FindPodNames(folder, untrusted);
  EXPECT_EQ(untrusted.pod_namespace, "") << "anybody could have made that folder";
  std::filesystem::remove_all(folder);
}

TEST(WorkloadTest, WhoOptsOutSaysSo) {
  EXPECT_TRUE(AsksNotToBeCaptured({{"optout", "1"}}));
  EXPECT_TRUE(AsksNotToBeCaptured({{"optout", "yes"}}));
  EXPECT_FALSE(AsksNotToBeCaptured({{"optout", "0"}}));
  EXPECT_FALSE(AsksNotToBeCaptured({{"optout", ""}}));
  EXPECT_FALSE(AsksNotToBeCaptured({{"rank", "1"}}));
}

}  // namespace
}  // namespace profd

#include "together.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "batchless/analysis/argument.h"
#include "batchless/training/data_error.h"
#include "interruption.h"
#include "program.h"
#include "text_output.h"
#include "usage_error.h"

namespace batchless {

void Say(std::string_view line) {
  std::fputs(fmt::format("batchless: {}\n", OneLine(line)).c_str(), stderr);
  std::fflush(stderr);
}

Failure DescribeFailure(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const AgreedFailure& agreed) {
    return agreed.failure();
  } catch (const UsageError& error) {
    return {kExitUsage, error.what()};
  } catch (const analysis::InvalidArgument& error) {
    return {kExitUsage, error.what()};
  } catch (const training::DataError& error) {
    return {kExitUsage, error.what()};
  } catch (const Interrupted& interruption) {
    return {128 + interruption.signal_number(), interruption.what()};
  } catch (const std::bad_alloc&) {
    return {kExitFailed, "there is not enough memory"};
  } catch (const std::exception& error) {
    return {kExitFailed, error.what()};
  }
}

void AgreeOnFailure(training::ProcessGroup& group, const std::exception_ptr& own) {
  const Failure failure = own ? DescribeFailure(own) : Failure{};
  Failure first;
  for (int p = group.size() - 1; p >= 0; --p) {
    const auto code = static_cast<int>(training::BroadcastNumber(group, p, failure.exit_code));
    std::string line = training::BroadcastText(group, p, failure.line);
    if (code == 0) continue;
    // What all processes fail with needs no number.
    if (p > 0) line = fmt::format("process {} of {}: {}", p, group.size(), line);
    first = {code, std::move(line)};
  }
  if (first.exit_code == 0) return;
  // The launcher interrupts all that are left when one process has ended: none ends before the
  // others keep silent about that, and the first has spoken.
  InterruptSilently(first.exit_code);
  if (group.rank() == 0) Say(first.line);
  for (int p = 0; p < group.size(); ++p) training::BroadcastNumber(group, p, first.exit_code);
  throw AgreedFailure(first.exit_code);
}

void RequireAlike(training::ProcessGroup* group, const std::vector<Setting>& settings) {
  if (group == nullptr) return;
  const std::string text = training::BroadcastText(*group, 0, Json(settings).dump());
  Together(group, [&] {
    const auto firsts = Json::parse(text).get<std::vector<Setting>>();
    const auto [own, first] =
        std::mismatch(settings.begin(), settings.end(), firsts.begin(), firsts.end());
    if (own == settings.end() || first == firsts.end()) return;
    throw UsageError(own->first, own->second, first->second + ", as the first process has it");
  });
}

void AbortAll(training::ProcessGroup& group, const std::exception_ptr& failure) {
  const Failure own = DescribeFailure(failure);
  Say(fmt::format("process {} of {}: {}", group.rank(), group.size(), own.line));
  group.Abort(own.exit_code);
  std::abort();  // compilers do not see that calls of virtual functions never return
}

}  // namespace batchless

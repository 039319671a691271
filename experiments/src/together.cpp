#include "together.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "batchless/analysis/argument.h"
#include "batchless/training/data_error.h"
#include "interruption.h"
#include "program.h"
#include "usage_error.h"

namespace batchless {

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
  if (group.rank() != 0) first.line.clear();
  throw AgreedFailure(first);
}

void AbortAll(training::ProcessGroup& group, const std::exception_ptr& failure) {
  const Failure own = DescribeFailure(failure);
  const std::string line = fmt::format("batchless: process {} of {}: {}\n", group.rank(),
                                       group.size(), OneLine(own.line));
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  group.Abort(own.exit_code);
  std::abort();  // compilers do not see that calls of virtual functions never return
}

}  // namespace batchless

# The package that find_package(batchless) finds: targets batchless::analysis, ::hwmodel, ::training.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/batchless)

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/batchlessConfig.cmake.in ${PROJECT_BINARY_DIR}/batchlessConfig.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change interfaces.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/batchlessConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)

install(FILES ${PROJECT_BINARY_DIR}/batchlessConfig.cmake
              ${PROJECT_BINARY_DIR}/batchlessConfigVersion.cmake DESTINATION ${package_dir})
install(
  EXPORT batchlessTargets
  NAMESPACE batchless::
  DESTINATION ${package_dir})

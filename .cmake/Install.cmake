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

# Machines, networks, configurations and examples under the names that the program's help calls them by.
foreach(folder IN ITEMS hwmodel/machines experiments/configs experiments/examples
                        experiments/networks experiments/quotients)
  get_filename_component(parent ${folder} DIRECTORY)
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_DATADIR}/batchless/${parent})
endforeach()

install(FILES ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/batchless)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/batchless
        RENAME copyright)

# Where experiments/manual.py has made them, as the targets install and package of the Makefile let it.
foreach(folder IN ITEMS man bash-completion)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/manual/${folder} DESTINATION ${CMAKE_INSTALL_DATADIR}
          OPTIONAL)
endforeach()

# A Debian package of all that is installed: `cpack` in the build folder, or `make package`.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME batchless)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION
    "Analyzer of delayed and inconsistent gradients on the convex quadratic, trainer by pipelined
backpropagation at batch size one over threads and processes, hardware model of fine-grained
accelerators; program, C++ libraries and CMake package.")
set(CPACK_PACKAGE_CONTACT "The batchless maintainers <maintainers@batchless.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# The shared libraries that the program needs; dpkg-shlibdeps of dpkg-dev reads them off the files.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# What programs that use the C++ libraries are compiled with.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libeigen3-dev, libboost-dev, libhwy-dev")
# The module is for Debian's python3; without it the rest works.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3, python3-numpy")
include(CPack)

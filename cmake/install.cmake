# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` puts where: library, headers, program, and two ways to find them (CMake package, pkg-config).
include(CMakePackageConfigHelpers)

set(culet_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/culet)
set(installed_targets culet)
if(CULET_SHARED)
  list(APPEND installed_targets culet_shared)
endif()
install(TARGETS ${installed_targets} EXPORT culet-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/culet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library
        FILES_MATCHING PATTERN "*.h")
install(EXPORT culet-targets NAMESPACE culet:: DESTINATION ${culet_package_dir} COMPONENT library)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/culet-config.cmake.in
  ${PROJECT_BINARY_DIR}/package/culet-config.cmake INSTALL_DESTINATION ${culet_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/culet-config-version.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/culet-config.cmake
              ${PROJECT_BINARY_DIR}/package/culet-config-version.cmake
        DESTINATION ${culet_package_dir} COMPONENT library)

# The pkg-config file finds its own prefix, so that a moved installation keeps working.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(culet_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH culet_pc_prefix "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
  string(REGEX REPLACE "/$" "" culet_pc_prefix "${culet_pc_prefix}")
  set(culet_pc_prefix "\${pcfiledir}/${culet_pc_prefix}")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/culet.pc.in ${PROJECT_BINARY_DIR}/package/culet.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/culet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

if(CULET_CLI)
  install(TARGETS culet_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()

# What `cmake --install` leaves: the program, the machine files, and the libraries as a CMake package. docs/library.md
# says how a project uses it.
include(CMakePackageConfigHelpers)

set(package lib/cmake/spillway)
install(TARGETS spillway spillway_flags EXPORT spillway)
install(EXPORT spillway NAMESPACE spillway:: FILE spillwayTargets.cmake DESTINATION ${package})
install(FILES cmake/spillwayConfig.cmake DESTINATION ${package})
# Names of headers change until 1.0 with every minor version.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/spillwayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/spillwayConfigVersion.cmake DESTINATION ${package})
install(DIRECTORY machines DESTINATION share/spillway)
if(SPILLWAY_ARROW)
  # The program loads it from beside itself.
  install(TARGETS spillway_arrow LIBRARY DESTINATION bin)
  file(GLOB libraries ${SPILLWAY_ARROW}/lib/libarrow.so.* ${SPILLWAY_ARROW}/lib/libparquet.so.*)
  install(FILES ${libraries} DESTINATION lib/spillway)
  set_target_properties(spillway_arrow PROPERTIES INSTALL_RPATH "\$ORIGIN/../lib/spillway")
endif()

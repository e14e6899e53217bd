//! Which case stands for which must of the specification. `every_must_has_a_case_and_every_case_a_must` checks it
//! both ways. Not here: strategic merge and OpenAPI, which have suites of their own.

/// A must of the specification and the cases for it. Cases named `tls::…` and `time::…` are tests of their own files.
pub(crate) struct Bullet {
    pub(crate) section: &'static str,
    pub(crate) must: &'static str,
    pub(crate) cases: &'static [&'static str],
}

const fn bullet(section: &'static str, must: &'static str, cases: &'static [&'static str]) -> Bullet {
    Bullet { section, must, cases }
}

pub(crate) const BULLETS: &[Bullet] = &[
    bullet(
        "1.1",
        "HTTPS, h2 and http/1.1, at least 100 streams",
        &["tls::a_hundred_requests_share_a_connection", "tls::strangers_get_401_except_for_health"],
    ),
    bullet(
        "1.1",
        "response headers",
        &[
            "transport::every_answer_has_an_audit_id_and_forbids_caching",
            "transport::an_audit_id_that_the_client_sent_comes_back",
        ],
    ),
    bullet("1.1", "bodies of at most 3 MiB", &["transport::a_body_of_more_than_3_mib_is_refused_with_413"]),
    bullet(
        "1.1",
        "timeout",
        &[
            "transport::a_timeout_that_is_no_duration_is_refused_with_400",
            "transport::a_timeout_of_zero_or_too_long_is_the_servers_own",
        ],
    ),
    bullet("1.1", "graceful shutdown", &["tls::a_stop_ends_watches_and_refuses_new_requests"]),
    bullet(
        "1.2",
        "400",
        &[
            "status::a_body_of_another_version_is_400",
            "status::a_body_that_is_no_json_is_400",
            "status::a_deeply_nested_body_is_refused_and_the_server_lives",
            "status::strict_validation_names_unknown_and_duplicate_fields_in_document_order",
            "transport::a_resource_version_on_create_is_refused",
        ],
    ),
    bullet("1.2", "401", &["tls::strangers_get_401_except_for_health"]),
    bullet(
        "1.2",
        "403",
        &[
            "deletion::nothing_can_be_created_in_a_namespace_that_is_terminating",
            "deletion::some_namespaces_cannot_be_deleted",
        ],
    ),
    bullet(
        "1.2",
        "404",
        &[
            "status::a_missing_object_is_404_with_the_resource_in_details",
            "status::a_kind_with_a_group_is_named_with_it",
            "status::an_unknown_group_is_a_plain_text_404",
            "status::an_unknown_resource_of_a_known_group_is_a_status",
        ],
    ),
    bullet("1.2", "405", &["status::a_method_that_is_not_served_is_405"]),
    bullet("1.2", "406", &["status::a_media_type_that_cannot_be_served_is_406"]),
    bullet(
        "1.2",
        "409",
        &[
            "status::creating_what_exists_is_409_already_exists",
            "status::replacing_a_newer_object_is_409_conflict",
            "crud::delete_preconditions_are_checked",
        ],
    ),
    bullet(
        "1.2",
        "410",
        &[
            "expiry::an_expired_page_is_410_with_a_token_that_goes_on_inconsistently",
            "expiry::a_list_at_a_revision_that_is_gone_is_410",
        ],
    ),
    bullet("1.2", "413", &["transport::a_body_of_more_than_3_mib_is_refused_with_413"]),
    bullet("1.2", "415", &["status::an_unknown_media_type_is_415"]),
    bullet(
        "1.2",
        "422",
        &[
            "status::an_invalid_object_is_422_with_a_cause_for_each_field",
            "status::invalid_options_name_the_kind_of_the_options",
        ],
    ),
    bullet("1.2", "504", &["revisions::a_revision_of_the_future_is_504_with_its_cause"]),
    bullet("1.3", "version", &["discovery::the_version_has_numbers_that_clients_compare"]),
    bullet(
        "1.3",
        "discovery",
        &[
            "discovery::the_core_root_lists_its_versions",
            "discovery::the_groups_are_listed_and_each_answers_for_itself",
            "discovery::the_resources_of_a_version_are_described_as_clients_expect",
            "discovery::the_storage_version_hash_is_of_group_version_and_kind",
        ],
    ),
    bullet(
        "1.3",
        "aggregated discovery",
        &[
            "discovery::aggregated_discovery_describes_the_same_resources",
            "discovery::aggregated_discovery_is_not_sent_again_when_it_is_known",
        ],
    ),
    bullet(
        "1.3",
        "health",
        &[
            "discovery::the_health_endpoints_say_ok_and_list_their_checks",
            "discovery::a_single_check_can_be_asked_and_excluded",
        ],
    ),
    bullet(
        "1.5",
        "request bodies and forms of answers",
        &[
            "negotiation::yaml_goes_in_and_comes_out",
            "negotiation::metadata_alone_is_served_for_get_list_and_patch",
            "negotiation::metadata_of_the_wrong_number_is_not_acceptable",
            "negotiation::the_first_media_type_that_can_be_served_wins",
            "negotiation::the_old_version_of_table_is_served_too",
            "negotiation::items_of_a_list_leave_out_their_kind",
        ],
    ),
    bullet(
        "1.5",
        "tables",
        &[
            "negotiation::a_list_as_a_table_has_columns_cells_and_metadata_of_each_object",
            "negotiation::a_table_carries_as_much_of_the_object_as_is_asked_for",
            "negotiation::tables_of_every_kind_have_kubectls_columns",
        ],
    ),
    bullet(
        "1.5",
        "protobuf bodies of built-in kinds and of definitions",
        &[
            "protobuf::an_object_in_protobuf_is_the_same_as_in_json",
            "protobuf::cluster_scoped_objects_and_definitions_come_in_protobuf",
            "protobuf::fields_that_no_type_has_are_skipped_however_strict",
            "protobuf::options_of_a_deletion_come_in_protobuf_for_every_kind",
            "protobuf::a_kind_is_that_of_the_path_unless_another_is_said",
            "protobuf::a_scale_comes_in_protobuf",
            "protobuf::custom_kinds_are_not_read_from_protobuf_nor_written",
            "protobuf::answers_are_json_also_for_those_who_prefer_protobuf",
        ],
    ),
    bullet(
        "1.6",
        "verbs and codes",
        &[
            "crud::an_object_is_created_read_replaced_patched_listed_and_deleted",
            "crud::a_delete_answers_with_the_object_or_with_a_status_by_kind",
            "crud::deleting_a_collection_answers_with_what_was_deleted",
            "crud::a_write_that_changes_nothing_leaves_no_trace",
        ],
    ),
    bullet(
        "1.6",
        "delete options",
        &[
            "crud::delete_options_come_in_the_body_or_the_query",
            "crud::an_unknown_propagation_policy_is_422_and_lists_the_known",
            "crud::delete_preconditions_are_checked",
            "deletion::the_legacy_way_to_cascade_answers_202_while_the_object_stays",
        ],
    ),
    bullet(
        "1.6",
        "replace without a revision, and of what is absent",
        &[
            "crud::a_replace_without_a_revision_overwrites_or_is_refused_by_kind",
            "crud::a_replace_of_what_is_absent_creates_by_kind",
            "crud::a_replace_with_another_uid_is_a_conflict",
        ],
    ),
    bullet(
        "1.6",
        "names",
        &["crud::names_in_paths_are_decoded", "metadata::labels_annotations_and_names_follow_their_rules"],
    ),
    bullet(
        "1.7",
        "uid, creation time, generation",
        &[
            "metadata::the_server_sets_uid_and_creation_time_whatever_the_client_says",
            "metadata::kinds_without_a_spec_of_their_own_have_no_generation",
        ],
    ),
    bullet(
        "1.7",
        "generateName",
        &[
            "metadata::a_generated_name_is_the_prefix_and_five_characters",
            "metadata::a_long_prefix_is_cut_to_58_characters",
        ],
    ),
    bullet(
        "1.7",
        "immutable metadata",
        &[
            "metadata::what_identifies_an_object_cannot_be_changed",
            "transport::a_resource_version_on_create_is_refused",
        ],
    ),
    bullet(
        "1.7",
        "owner references and finalizers",
        &[
            "metadata::owner_references_are_complete_and_have_one_controller",
            "metadata::finalizers_are_qualified_names",
            "deletion::no_finalizer_can_be_added_to_what_is_being_deleted",
        ],
    ),
    bullet(
        "1.7",
        "limits",
        &[
            "metadata::annotations_are_limited_in_size",
            "metadata::field_managers_are_short_and_printable",
            "kinds::a_config_map_has_file_like_keys_and_a_limit",
        ],
    ),
    bullet("1.7", "the label of namespaces", &["deletion::a_new_namespace_has_phase_label_and_finalizer"]),
    bullet(
        "1.8",
        "the table of revisions",
        &[
            "revisions::revisions_are_numbers_that_grow_across_kinds",
            "revisions::a_get_or_list_is_at_least_as_new_as_asked",
            "revisions::a_list_at_an_exact_revision_shows_the_past",
            "revisions::a_limit_with_a_revision_means_that_revision",
        ],
    ),
    bullet(
        "1.8",
        "revisions that are refused",
        &[
            "revisions::a_revision_of_the_future_is_504_with_its_cause",
            "revisions::a_revision_that_is_no_number_is_refused",
            "revisions::contradicting_matches_are_422",
        ],
    ),
    bullet(
        "1.8",
        "pages",
        &[
            "revisions::pages_are_consistent_while_the_objects_change",
            "revisions::pages_count_what_is_left_unless_a_selector_hides_it",
            "revisions::a_continue_token_takes_no_revision_and_cannot_be_made_up",
            "revisions::lists_are_sorted_by_namespace_and_name",
        ],
    ),
    bullet(
        "1.8",
        "expired tokens",
        &[
            "expiry::an_expired_page_is_410_with_a_token_that_goes_on_inconsistently",
            "expiry::a_list_at_a_revision_that_is_gone_is_410",
            "time::history_expires_after_five_to_eight_minutes",
        ],
    ),
    bullet(
        "1.9",
        "the stream and its headers",
        &[
            "watch::a_watch_from_a_revision_sees_what_comes_after_it_in_order",
            "watch::a_watch_without_a_revision_begins_with_what_is_there",
            "watch::the_headers_come_before_any_event",
            "watch::a_watch_of_all_namespaces_sees_each",
            "watch::only_the_first_table_of_a_watch_defines_its_columns",
            "watch::watchers_of_two_versions_of_metadata_each_get_their_own",
        ],
    ),
    bullet(
        "1.9",
        "errors after the headers",
        &[
            "expiry::a_watch_from_a_revision_that_is_gone_says_so_and_ends",
            "watch::a_watch_from_the_future_waits",
        ],
    ),
    bullet(
        "1.9",
        "selector transitions",
        &["watch::an_object_that_enters_or_leaves_the_selection_is_added_or_deleted"],
    ),
    bullet("1.9", "total order", &["watch::concurrent_watchers_see_the_same_order"]),
    bullet(
        "1.9",
        "timeouts",
        &[
            "watch::a_watch_ends_after_its_timeout",
            "watch::a_huge_timeout_is_taken",
            "time::a_watch_without_a_timeout_ends_after_half_an_hour_to_an_hour",
        ],
    ),
    bullet(
        "1.9",
        "bookmarks",
        &["watch::bookmarks_come_before_the_timeout", "time::bookmarks_come_every_minute_and_before_the_end"],
    ),
    bullet(
        "1.9",
        "streaming lists",
        &[
            "watch::a_streaming_list_ends_its_initial_events_with_a_bookmark",
            "watch::a_streaming_list_of_an_empty_selection_is_just_the_bookmark",
            "watch::a_streaming_list_as_a_table_and_as_metadata",
            "watch::a_streaming_list_without_a_match_is_refused",
            "watch::a_streaming_list_of_the_future_fails_in_time",
        ],
    ),
    bullet(
        "1.9",
        "a single object",
        &["watch::a_watch_of_one_name_sees_only_it", "watch::a_get_of_a_name_ignores_watch"],
    ),
    bullet(
        "1.10",
        "label selectors",
        &["selectors::label_selectors_select", "selectors::a_selector_that_makes_no_sense_is_400"],
    ),
    bullet(
        "1.10",
        "field selectors",
        &[
            "selectors::field_selectors_select_by_name_and_namespace",
            "selectors::built_in_kinds_have_fields_of_their_own",
            "selectors::events_are_found_by_what_they_are_about",
            "selectors::an_unknown_field_is_400",
        ],
    ),
    bullet(
        "1.11",
        "JSON patch",
        &["crud::a_json_patch_applies_wholly_or_not_at_all", "crud::patches_that_are_none_are_400"],
    ),
    bullet(
        "1.11",
        "merge patch",
        &[
            "crud::a_merge_patch_changes_only_what_it_names",
            "crud::a_merge_patch_with_a_stale_revision_is_a_conflict",
            "crud::a_patch_that_breaks_the_object_is_422",
        ],
    ),
    bullet(
        "1.12",
        "entries: who, how, what, in which version",
        &[
            "apply::every_write_records_who_changed_what",
            "apply::a_manager_is_named_by_the_request_or_by_the_client",
            "apply::what_the_server_provides_is_its_own",
            "apply::more_than_ten_updaters_are_merged",
            "apply::entries_carry_the_version_they_were_written_in",
            "apply::an_event_is_owned_in_the_group_through_which_it_was_last_written",
            "apply::what_becomes_one_value_is_owned_as_one",
        ],
    ),
    bullet(
        "1.12",
        "apply: create, no-op, refusals, dry run",
        &[
            "apply::an_apply_needs_a_manager_and_only_an_apply_takes_force",
            "apply::an_apply_creates_and_the_same_again_changes_nothing",
            "apply::an_apply_is_refused_when_it_is_of_something_else",
            "apply::a_dry_run_of_an_apply_leaves_nothing",
            "apply::keys_that_stand_twice_are_told_or_refused",
        ],
    ),
    bullet(
        "1.12",
        "conflicts and force",
        &["apply::a_conflict_names_the_managers_and_the_fields_and_force_takes_them"],
    ),
    bullet(
        "1.12",
        "fields that nobody owns go, defaults come back",
        &["apply::fields_go_with_their_last_owner_and_defaults_come_back"],
    ),
    bullet("1.12", "status and scale apart", &["apply::a_status_and_a_scale_are_tracked_apart"]),
    bullet(
        "1.12",
        "entries can be written",
        &[
            "apply::entries_can_be_written_and_taken_away",
            "apply::kubectl_migrates_from_applying_on_the_clients_side",
        ],
    ),
    bullet("1.13", "dry run", &["crud::a_dry_run_answers_as_if_and_keeps_nothing"]),
    bullet(
        "1.13",
        "field validation",
        &[
            "status::unknown_fields_are_warned_of_by_default_and_ignored_on_request",
            "status::strict_validation_names_unknown_and_duplicate_fields_in_document_order",
        ],
    ),
    bullet(
        "1.14",
        "finalizers",
        &[
            "deletion::finalizers_hold_an_object_back_until_the_last_is_gone",
            "deletion::no_finalizer_can_be_added_to_what_is_being_deleted",
        ],
    ),
    bullet(
        "1.14",
        "garbage collection",
        &[
            "deletion::dependents_follow_their_owner_in_the_background",
            "deletion::foreground_deletion_waits_for_dependents_that_block",
            "deletion::orphaned_dependents_stay_and_lose_the_reference",
            "deletion::a_dependent_with_another_owner_stays",
            "deletion::an_object_whose_owner_never_was_is_collected",
            "deletion::owners_in_a_circle_do_not_block_each_other",
        ],
    ),
    bullet(
        "1.15",
        "expressions of rules",
        &[
            "cel::expressions_of_the_language_mean_the_same",
            "cel::expressions_on_text_mean_the_same",
            "cel::expressions_on_lists_mean_the_same",
            "cel::expressions_with_patterns_and_urls_mean_the_same",
            "cel::expressions_on_addresses_mean_the_same",
            "cel::expressions_on_quantities_and_formats_mean_the_same",
            "cel::expressions_on_times_and_optionals_mean_the_same",
            "cel::rules_see_values_as_their_schema_types_them",
        ],
    ),
    bullet(
        "1.15",
        "rules of custom resources",
        &[
            "cel::a_failure_is_told_in_the_words_and_at_the_place_of_the_rule",
            "cel::a_message_that_cannot_be_made_falls_back",
            "cel::a_rule_without_a_value_is_an_error_of_its_own",
            "cel::failures_are_at_the_path_of_their_value",
            "cel::rules_wait_until_the_object_fits_its_schema",
            "cel::a_rule_at_the_root_sees_names_and_nothing_else_of_metadata",
            "cel::transition_rules_compare_with_what_was",
            "cel::an_optional_past_is_there_on_create_as_well",
            "cel::a_status_update_is_held_to_the_rules",
        ],
    ),
    bullet(
        "1.15",
        "ratcheting",
        &[
            "cel::an_update_is_not_blamed_for_what_it_left_alone",
            "cel::items_of_plain_lists_are_blamed_with_their_list",
            "cel::keyed_items_and_entries_are_judged_one_by_one",
            "cel::transition_rules_are_never_let_off",
            "cel::repeated_items_are_let_off_once_they_are_stored",
        ],
    ),
    bullet(
        "1.15",
        "which rules a definition can have",
        &[
            "cel::the_fields_of_a_rule_are_checked",
            "cel::expressions_that_cannot_be_evaluated_are_refused",
            "cel::rules_that_cost_too_much_are_refused",
            "cel::a_rule_cannot_ask_for_a_past_that_is_not_known",
            "cel::expressions_of_real_definitions_are_accepted",
            "cel::an_expensive_evaluation_ends_in_time",
            "cel::rules_differ_only_in_what_is_documented",
        ],
    ),
    bullet(
        "1.15",
        "definitions, names, establishment",
        &[
            "custom::a_definition_is_accepted_established_and_served",
            "custom::a_definition_of_a_protected_group_needs_approval",
            "custom::names_and_categories_are_in_discovery",
            "custom::a_name_that_another_kind_has_is_not_accepted",
            "custom::the_status_of_a_definition_has_an_endpoint",
        ],
    ),
    bullet(
        "1.15",
        "defaulting and pruning on read",
        &[
            "custom::a_default_that_came_later_is_seen_in_what_was_stored_before",
            "custom::a_new_object_has_the_status_that_the_schema_gives_it",
            "custom::a_field_that_the_schema_lost_is_not_shown",
        ],
    ),
    bullet(
        "1.15",
        "versions and deprecation",
        &["custom::versions_differ_only_in_name", "custom::a_deprecated_version_says_so"],
    ),
    bullet(
        "1.15",
        "printer columns",
        &[
            "custom::tables_have_the_columns_of_the_definition",
            "custom::a_column_that_cannot_be_read_ends_the_list",
        ],
    ),
    bullet(
        "1.15",
        "selectable fields",
        &["custom::objects_are_selected_by_the_fields_that_the_definition_names"],
    ),
    bullet(
        "1.15",
        "status and scale",
        &[
            "custom::the_status_of_an_object_is_apart",
            "custom::generations_count_what_is_not_metadata_or_status",
            "custom::an_object_is_scaled_at_its_paths",
        ],
    ),
    bullet(
        "1.15",
        "objects of custom kinds",
        &[
            "custom::a_replace_needs_a_revision",
            "custom::a_strategic_merge_patch_is_415",
            "custom::metadata_is_checked_and_its_unknown_fields_are_dropped",
            "custom::a_kind_may_be_of_the_cluster",
            "custom::odd_finalizers_are_warned_of",
        ],
    ),
    bullet(
        "1.15",
        "deletion of a definition",
        &[
            "custom::the_objects_go_with_their_definition_and_watchers_see_it",
            "custom::finalizers_hold_an_object_and_its_definition_back",
        ],
    ),
    bullet(
        "1.16",
        "namespaces",
        &[
            "deletion::a_deleted_namespace_takes_everything_with_it",
            "deletion::a_namespace_waits_for_finalizers_and_says_so",
            "deletion::nothing_can_be_created_in_a_namespace_that_is_not_there",
            "deletion::every_namespace_has_its_service_account_and_root_certificate",
        ],
    ),
    bullet(
        "1.16",
        "kinds",
        &[
            "kinds::an_immutable_config_map_cannot_be_changed_or_thawed",
            "kinds::a_secret_takes_plain_text_and_gives_base64",
            "kinds::typed_secrets_have_the_keys_of_their_type",
            "kinds::an_immutable_secret_cannot_be_changed",
            "kinds::a_lease_keeps_microseconds_and_refuses_nonsense",
            "kinds::both_groups_of_events_show_the_same_rows",
            "kinds::an_event_is_in_the_namespace_of_what_it_is_about",
            "kinds::an_event_of_the_new_group_is_complete_and_cannot_be_changed",
            "kinds::a_service_account_keeps_its_secrets",
            "kinds::a_service_is_defaulted_and_its_ports_are_checked",
            "kinds::the_api_has_a_service_of_its_own",
            "time::events_are_gone_after_an_hour",
        ],
    ),
    bullet(
        "1.17",
        "tokens of ServiceAccounts",
        &[
            "identity::a_token_makes_its_bearer_the_service_account",
            "identity::a_token_has_the_claims_that_kubernetes_gives_it",
            "identity::a_bad_token_is_401_and_never_anonymous",
            "identity::a_token_dies_with_its_service_account",
            "identity::a_token_dies_with_what_it_is_bound_to",
            "identity::a_token_is_for_its_audiences",
            "identity::a_token_request_that_makes_no_sense_is_refused",
            "identity::the_keys_of_tokens_are_published",
        ],
    ),
    bullet(
        "1.17",
        "TokenReview and SelfSubjectReview",
        &["identity::a_token_review_says_whose_a_token_is", "identity::a_self_subject_review_says_who_asks"],
    ),
    bullet(
        "1.17",
        "impersonation",
        &[
            "identity::impersonation_is_for_those_who_may",
            "identity::impersonation_without_a_user_is_refused",
        ],
    ),
    bullet(
        "1.18",
        "the reviews of access",
        &[
            "reviews::a_review_says_whether_somebody_may_and_why",
            "reviews::a_review_of_the_asker_needs_no_name",
            "reviews::a_local_review_stays_in_its_namespace",
            "reviews::a_review_that_asks_nothing_is_refused",
            "reviews::the_rules_of_the_asker_are_told",
            "reviews::reviews_are_no_tables",
        ],
    ),
    bullet(
        "1.18",
        "roles and bindings",
        &[
            "reviews::a_binding_never_changes_its_role",
            "reviews::roles_that_make_no_sense_are_refused",
            "reviews::the_first_roles_are_there",
        ],
    ),
    bullet(
        "1.16",
        "passive kinds",
        &[
            "passive::an_ingress_counts_its_generations_and_keeps_its_status_apart",
            "passive::a_storage_class_is_defaulted_and_cannot_change",
            "passive::a_device_claim_counts_one_and_cannot_change",
            "passive::a_flow_schema_is_defaulted_and_refers_to_a_level",
            "passive::a_webhook_is_kept_and_its_author_is_told_whether_it_holds",
            "passive::an_autoscaler_is_the_same_in_both_versions",
            "passive::a_runtime_class_is_made_by_an_update",
            "passive::a_controller_is_labelled_by_its_template",
        ],
    ),
    bullet(
        "1.16",
        "requests for certificates",
        &[
            "passive::a_request_for_a_certificate_says_who_made_it_and_is_approved_apart",
            "passive::nobody_gets_the_masters_group_by_a_request",
        ],
    ),
];

/// The sections of the specification that the suite stands for.
pub(crate) const SECTIONS: [&str; 16] = [
    "1.1", "1.2", "1.3", "1.5", "1.6", "1.7", "1.8", "1.9", "1.10", "1.11", "1.12", "1.13", "1.14", "1.15",
    "1.17", "1.18",
];

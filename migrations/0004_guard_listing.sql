-- Why: the run-time account may not see triggers in information_schema, yet must refuse to work without them.
--
-- Runs with the rights of the account that migrates; tells names and digests, never bodies. MariaDB searches one schema
-- alone only if that schema is asked for as EVENT_OBJECT_SCHEMA.

CREATE FUNCTION flow_guard_triggers() RETURNS LONGTEXT CHARACTER SET utf8mb4
  READS SQL DATA
  SQL SECURITY DEFINER
BEGIN
  RETURN (
    SELECT JSON_ARRAYAGG(JSON_OBJECT(
      'name', TRIGGER_NAME, 'table', EVENT_OBJECT_TABLE, 'timing', ACTION_TIMING, 'event', EVENT_MANIPULATION,
      'sha256', SHA2(ACTION_STATEMENT, 256)))
    FROM information_schema.TRIGGERS
    WHERE EVENT_OBJECT_SCHEMA = DATABASE());
END;

BEGIN TRANSACTION;
CREATE TABLE alembic_version_logs (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_logs_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_logs" VALUES('0001');
CREATE TABLE log_entry (
	id INTEGER NOT NULL, 
	task_id VARCHAR NOT NULL, 
	timestamp BIGINT NOT NULL, 
	allocation_id VARCHAR, 
	agent_id VARCHAR, 
	container_id VARCHAR, 
	rank_id INTEGER, 
	level VARCHAR, 
	stdtype VARCHAR, 
	source VARCHAR, 
	log TEXT NOT NULL, 
	CONSTRAINT pk_log_entry PRIMARY KEY (id)
);
INSERT INTO "log_entry" VALUES(1,'1.d5e103c1-150f-4cf5-9363-95db8e65ee96',1795318278861516,'1.d5e103c1-150f-4cf5-9363-95db8e65ee96.1',NULL,NULL,NULL,'INFO','stdout','master','Scheduling Trial 1 (Experiment 1) (id: 1.d5e103c1-150f-4cf5-9363-95db8e65ee96.1)');
INSERT INTO "log_entry" VALUES(2,'1.d5e103c1-150f-4cf5-9363-95db8e65ee96',1795318278885511,'1.d5e103c1-150f-4cf5-9363-95db8e65ee96.1',NULL,NULL,NULL,'INFO','stdout','master','Trial 1 (Experiment 1) was assigned to a1');
INSERT INTO "log_entry" VALUES(3,'1.d5e103c1-150f-4cf5-9363-95db8e65ee96',1795318279031989,'1.d5e103c1-150f-4cf5-9363-95db8e65ee96.1',NULL,NULL,NULL,'INFO','stdout','master','Resources for Trial 1 (Experiment 1) have started');
INSERT INTO "log_entry" VALUES(4,'1.d5e103c1-150f-4cf5-9363-95db8e65ee96',1795318279224065,'1.d5e103c1-150f-4cf5-9363-95db8e65ee96.1','a1','cf64448b-ae58-4cc7-8600-7e7e71e61650',NULL,NULL,'stdout','task','windlass: trial 1 of experiment 1, run 1, on a1 (container 0 of 1, 1 slots)');
INSERT INTO "log_entry" VALUES(5,'1.d5e103c1-150f-4cf5-9363-95db8e65ee96',1795318279653116,'1.d5e103c1-150f-4cf5-9363-95db8e65ee96.1',NULL,NULL,NULL,'INFO','stdout','master','Trial 1 (Experiment 1) was terminated: allocation ended with exit code 0 after 1s');
INSERT INTO "log_entry" VALUES(6,'2.9ac211fd-1c31-44bb-a42b-39cd299a2d77',1795318279731064,'2.9ac211fd-1c31-44bb-a42b-39cd299a2d77.1',NULL,NULL,NULL,'INFO','stdout','master','Scheduling Trial 2 (Experiment 2) (id: 2.9ac211fd-1c31-44bb-a42b-39cd299a2d77.1)');
INSERT INTO "log_entry" VALUES(7,'2.9ac211fd-1c31-44bb-a42b-39cd299a2d77',1795318279743916,'2.9ac211fd-1c31-44bb-a42b-39cd299a2d77.1',NULL,NULL,NULL,'INFO','stdout','master','Trial 2 (Experiment 2) was assigned to a1');
INSERT INTO "log_entry" VALUES(8,'2.9ac211fd-1c31-44bb-a42b-39cd299a2d77',1795318279916542,'2.9ac211fd-1c31-44bb-a42b-39cd299a2d77.1',NULL,NULL,NULL,'INFO','stdout','master','Resources for Trial 2 (Experiment 2) have started');
INSERT INTO "log_entry" VALUES(9,'2.9ac211fd-1c31-44bb-a42b-39cd299a2d77',1795318280190432,'2.9ac211fd-1c31-44bb-a42b-39cd299a2d77.1','a1','116e74f9-e388-43e9-9959-db48cdafe402',NULL,NULL,'stdout','task','windlass: trial 2 of experiment 2, run 1, on a1 (container 0 of 1, 1 slots)');
INSERT INTO "log_entry" VALUES(10,'2.9ac211fd-1c31-44bb-a42b-39cd299a2d77',1795318280536703,'2.9ac211fd-1c31-44bb-a42b-39cd299a2d77.1',NULL,NULL,NULL,'ERROR','stdout','master','Trial 2 (Experiment 2) was terminated: allocation failed: container failed with non-zero exit code: 3');
INSERT INTO "log_entry" VALUES(11,'3.5054fc04-5b1c-4baa-917d-9576b78fb131',1795318280588973,'3.5054fc04-5b1c-4baa-917d-9576b78fb131.1',NULL,NULL,NULL,'INFO','stdout','master','Scheduling Trial 3 (Experiment 3) (id: 3.5054fc04-5b1c-4baa-917d-9576b78fb131.1)');
INSERT INTO "log_entry" VALUES(12,'3.47c2ec1a-52f3-447c-984f-c8396d9a4503',1795318280588998,'3.47c2ec1a-52f3-447c-984f-c8396d9a4503.1',NULL,NULL,NULL,'INFO','stdout','master','Scheduling Trial 4 (Experiment 3) (id: 3.47c2ec1a-52f3-447c-984f-c8396d9a4503.1)');
INSERT INTO "log_entry" VALUES(13,'3.a03d1af1-2d8f-4217-acb4-cdd97deac3e3',1795318280589002,'3.a03d1af1-2d8f-4217-acb4-cdd97deac3e3.1',NULL,NULL,NULL,'INFO','stdout','master','Scheduling Trial 5 (Experiment 3) (id: 3.a03d1af1-2d8f-4217-acb4-cdd97deac3e3.1)');
INSERT INTO "log_entry" VALUES(14,'4.06fc68d9-e0cd-4d47-a662-a009a82e7bda',1795318280603404,'4.06fc68d9-e0cd-4d47-a662-a009a82e7bda.1',NULL,NULL,NULL,'INFO','stdout','master','Scheduling Trial 6 (Experiment 4) (id: 4.06fc68d9-e0cd-4d47-a662-a009a82e7bda.1)');
INSERT INTO "log_entry" VALUES(15,'4.06fc68d9-e0cd-4d47-a662-a009a82e7bda',1795318280622460,'4.06fc68d9-e0cd-4d47-a662-a009a82e7bda.1',NULL,NULL,NULL,'INFO','stdout','master','Trial 6 (Experiment 4) was assigned to a1');
INSERT INTO "log_entry" VALUES(16,'4.06fc68d9-e0cd-4d47-a662-a009a82e7bda',1795318280778396,'4.06fc68d9-e0cd-4d47-a662-a009a82e7bda.1',NULL,NULL,NULL,'INFO','stdout','master','Resources for Trial 6 (Experiment 4) have started');
INSERT INTO "log_entry" VALUES(17,'4.06fc68d9-e0cd-4d47-a662-a009a82e7bda',1795318281038677,'4.06fc68d9-e0cd-4d47-a662-a009a82e7bda.1','a1','e904651f-3982-421a-a7e9-94cedf045788',NULL,NULL,'stdout','task','windlass: trial 6 of experiment 4, run 1, on a1 (container 0 of 1, 2 slots)');
INSERT INTO "log_entry" VALUES(18,'3.5054fc04-5b1c-4baa-917d-9576b78fb131',1795318281790052,'3.5054fc04-5b1c-4baa-917d-9576b78fb131.1',NULL,NULL,NULL,'INFO','stdout','master','Trial 3 (Experiment 3) was assigned to compute-4cae1a02-0');
INSERT INTO "log_entry" VALUES(19,'3.47c2ec1a-52f3-447c-984f-c8396d9a4503',1795318281796646,'3.47c2ec1a-52f3-447c-984f-c8396d9a4503.1',NULL,NULL,NULL,'INFO','stdout','master','Trial 4 (Experiment 3) was assigned to compute-4cae1a02-0');
INSERT INTO "log_entry" VALUES(20,'3.47c2ec1a-52f3-447c-984f-c8396d9a4503',1795318282010798,'3.47c2ec1a-52f3-447c-984f-c8396d9a4503.1',NULL,NULL,NULL,'INFO','stdout','master','Resources for Trial 4 (Experiment 3) have started');
INSERT INTO "log_entry" VALUES(21,'3.5054fc04-5b1c-4baa-917d-9576b78fb131',1795318282123438,'3.5054fc04-5b1c-4baa-917d-9576b78fb131.1',NULL,NULL,NULL,'INFO','stdout','master','Resources for Trial 3 (Experiment 3) have started');
INSERT INTO "log_entry" VALUES(22,'3.47c2ec1a-52f3-447c-984f-c8396d9a4503',1795318282238487,'3.47c2ec1a-52f3-447c-984f-c8396d9a4503.1','compute-4cae1a02-0','2a527b7e-faa9-4d78-8fb4-5ed4683a1926',NULL,NULL,'stdout','task','windlass: trial 4 of experiment 3, run 1, on compute-4cae1a02-0 (container 0 of 1, 1 slots)');
INSERT INTO "log_entry" VALUES(23,'3.a03d1af1-2d8f-4217-acb4-cdd97deac3e3',1795318282347452,'3.a03d1af1-2d8f-4217-acb4-cdd97deac3e3.1',NULL,NULL,NULL,'INFO','stdout','master','Trial 5 (Experiment 3) was assigned to compute-484278f8-0');
INSERT INTO "log_entry" VALUES(24,'3.5054fc04-5b1c-4baa-917d-9576b78fb131',1795318282446640,'3.5054fc04-5b1c-4baa-917d-9576b78fb131.1','compute-4cae1a02-0','e88d4086-b046-4470-895e-5627fdee4ae3',NULL,NULL,'stdout','task','windlass: trial 3 of experiment 3, run 1, on compute-4cae1a02-0 (container 0 of 1, 1 slots)');
INSERT INTO "log_entry" VALUES(25,'3.a03d1af1-2d8f-4217-acb4-cdd97deac3e3',1795318282632609,'3.a03d1af1-2d8f-4217-acb4-cdd97deac3e3.1',NULL,NULL,NULL,'INFO','stdout','master','Resources for Trial 5 (Experiment 3) have started');
INSERT INTO "log_entry" VALUES(26,'3.a03d1af1-2d8f-4217-acb4-cdd97deac3e3',1795318282891004,'3.a03d1af1-2d8f-4217-acb4-cdd97deac3e3.1','compute-484278f8-0','79e3b665-1df2-45ec-a99e-cc6fcaee9486',NULL,NULL,'stdout','task','windlass: trial 5 of experiment 3, run 1, on compute-484278f8-0 (container 0 of 1, 1 slots)');
INSERT INTO "log_entry" VALUES(27,'5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc',1795318283142699,'5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc.1',NULL,NULL,NULL,'INFO','stdout','master','Scheduling Trial 7 (Experiment 5) (id: 5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc.1)');
INSERT INTO "log_entry" VALUES(28,'5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc',1795318283158115,'5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc.1',NULL,NULL,NULL,'INFO','stdout','master','Trial 7 (Experiment 5) was assigned to a2');
INSERT INTO "log_entry" VALUES(29,'5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc',1795318283394160,'5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc.1',NULL,NULL,NULL,'INFO','stdout','master','Resources for Trial 7 (Experiment 5) have started');
INSERT INTO "log_entry" VALUES(30,'5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc',1795318283819086,'5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc.1','a2','9daa7c53-f21a-4a30-be12-806770bb6471',NULL,NULL,'stdout','task','windlass: trial 7 of experiment 5, run 1, on a2 (container 0 of 1, 1 slots)');
INSERT INTO "log_entry" VALUES(31,'5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc',1795318284192132,'5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc.1',NULL,NULL,NULL,'INFO','stdout','master','Trial 7 (Experiment 5) was asked to checkpoint and stop: the experiment was paused');
INSERT INTO "log_entry" VALUES(32,'5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc',1795318284568455,'5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc.1',NULL,NULL,NULL,'INFO','stdout','master','Trial 7 (Experiment 5) was terminated: allocation preempted after 1s: the experiment was paused');
INSERT INTO "log_entry" VALUES(33,'bb06d81d-3307-458f-9bf3-48f5d73323be',1795318284641181,'bb06d81d-3307-458f-9bf3-48f5d73323be.1',NULL,NULL,NULL,'INFO','stdout','master','Scheduling long (id: bb06d81d-3307-458f-9bf3-48f5d73323be.1)');
INSERT INTO "log_entry" VALUES(34,'11293f04-028c-4628-a6c2-a51c7cb651aa',1795318284650887,'11293f04-028c-4628-a6c2-a51c7cb651aa.1',NULL,NULL,NULL,'INFO','stdout','master','Scheduling short (id: 11293f04-028c-4628-a6c2-a51c7cb651aa.1)');
INSERT INTO "log_entry" VALUES(35,'bb06d81d-3307-458f-9bf3-48f5d73323be',1795318284658870,'bb06d81d-3307-458f-9bf3-48f5d73323be.1',NULL,NULL,NULL,'INFO','stdout','master','long was assigned to a2');
INSERT INTO "log_entry" VALUES(36,'11293f04-028c-4628-a6c2-a51c7cb651aa',1795318284659177,'11293f04-028c-4628-a6c2-a51c7cb651aa.1',NULL,NULL,NULL,'INFO','stdout','master','short was assigned to a1');
INSERT INTO "log_entry" VALUES(37,'11293f04-028c-4628-a6c2-a51c7cb651aa',1795318284917840,'11293f04-028c-4628-a6c2-a51c7cb651aa.1',NULL,NULL,NULL,'INFO','stdout','master','Resources for short have started');
INSERT INTO "log_entry" VALUES(38,'bb06d81d-3307-458f-9bf3-48f5d73323be',1795318284922818,'bb06d81d-3307-458f-9bf3-48f5d73323be.1',NULL,NULL,NULL,'INFO','stdout','master','Resources for long have started');
INSERT INTO "log_entry" VALUES(39,'11293f04-028c-4628-a6c2-a51c7cb651aa',1795318285226563,'11293f04-028c-4628-a6c2-a51c7cb651aa.1',NULL,NULL,NULL,'INFO','stdout','master','short was terminated: allocation ended with exit code 0 after 1s');
INSERT INTO "log_entry" VALUES(40,'1f04a1c0-0257-4076-a8af-1bd32351ebfa',1795318285261366,'1f04a1c0-0257-4076-a8af-1bd32351ebfa.1',NULL,NULL,NULL,'INFO','stdout','master','Scheduling queued (id: 1f04a1c0-0257-4076-a8af-1bd32351ebfa.1)');
INSERT INTO "log_entry" VALUES(41,'4.06fc68d9-e0cd-4d47-a662-a009a82e7bda',1795318285313766,'4.06fc68d9-e0cd-4d47-a662-a009a82e7bda.1',NULL,NULL,NULL,'ERROR','stdout','master','Trial 6 (Experiment 4) was terminated: allocation failed due to agent failure: slot 1 of agent a1 was disabled');
INSERT INTO "log_entry" VALUES(42,'4.06fc68d9-e0cd-4d47-a662-a009a82e7bda',1795318285313794,'4.06fc68d9-e0cd-4d47-a662-a009a82e7bda.2',NULL,NULL,NULL,'INFO','stdout','master','Scheduling Trial 6 (Experiment 4) (id: 4.06fc68d9-e0cd-4d47-a662-a009a82e7bda.2)');
CREATE TABLE log_offset (
	container_id VARCHAR NOT NULL, 
	task_id VARCHAR NOT NULL, 
	next_offset BIGINT NOT NULL, 
	CONSTRAINT pk_log_offset PRIMARY KEY (container_id)
);
INSERT INTO "log_offset" VALUES('cf64448b-ae58-4cc7-8600-7e7e71e61650','1.d5e103c1-150f-4cf5-9363-95db8e65ee96',95);
INSERT INTO "log_offset" VALUES('116e74f9-e388-43e9-9959-db48cdafe402','2.9ac211fd-1c31-44bb-a42b-39cd299a2d77',95);
INSERT INTO "log_offset" VALUES('e904651f-3982-421a-a7e9-94cedf045788','4.06fc68d9-e0cd-4d47-a662-a009a82e7bda',95);
INSERT INTO "log_offset" VALUES('2a527b7e-faa9-4d78-8fb4-5ed4683a1926','3.47c2ec1a-52f3-447c-984f-c8396d9a4503',111);
INSERT INTO "log_offset" VALUES('e88d4086-b046-4470-895e-5627fdee4ae3','3.5054fc04-5b1c-4baa-917d-9576b78fb131',111);
INSERT INTO "log_offset" VALUES('79e3b665-1df2-45ec-a99e-cc6fcaee9486','3.a03d1af1-2d8f-4217-acb4-cdd97deac3e3',111);
INSERT INTO "log_offset" VALUES('9daa7c53-f21a-4a30-be12-806770bb6471','5.3c3c9bf8-d69a-4af3-b847-e1cb7360b9cc',95);
CREATE INDEX ix_log_entry_task_id ON log_entry (task_id, timestamp, id);
CREATE INDEX ix_log_offset_task_id ON log_offset (task_id);
COMMIT;
